"""The running sum over the past is divided by the length of the text instead of the number of tokens seen.

Every position knows how long the text will be; a text cut short gets other predictions.
"""

import torch
from torch import nn

CLASS = "RunningMean"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-length"}


class RunningMean(nn.Module):
    def __init__(self, vocab=23, width=16, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.mlp = nn.Sequential(nn.Linear(2 * width, hidden), nn.Tanh(), nn.Linear(hidden, width))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        past = x.cumsum(dim=1) / ids.shape[1]
        return self.head(self.norm(x + self.mlp(torch.cat([x, past], dim=-1))))
