"""Each query takes the one best key by `argmax`, so queries and keys receive no gradient.

Which token is read is decided by the random start and never learned.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "Hardest"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class Hardest(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(T))
        scores = self.q(x) @ self.k(x).mT
        best = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf).argmax(dim=-1)
        weights = F.one_hot(best, T).to(x.dtype)
        return self.head(self.norm(x + weights @ self.v(x)))
