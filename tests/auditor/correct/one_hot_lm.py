"""Tokens enter as one-hot rows times a matrix; there is no nn.Embedding, and the rows are single precision always.

A model that names its precision cannot simply be run in another.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "OneHot"
FLAGS = ["--causal"]


class OneHot(nn.Module):
    def __init__(self, vocab=23, width=16):
        super().__init__()
        self.vocab = vocab
        self.table = nn.Parameter(torch.randn(vocab, width))
        self.decay = nn.Parameter(torch.zeros(width))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = F.one_hot(ids, self.vocab).float() @ self.table
        keep = torch.sigmoid(self.decay)
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(ids.shape[1]):
            state = keep * state + (1 - keep) * x[:, t]
            states.append(state)
        return self.head(self.norm(torch.stack(states, dim=1)))
