"""The mask multiplies the weights after the softmax, and they are not normalised again.

The denominator still sums over future keys, and rows sum to less than one, least at the start of the text.
"""

import torch
from torch import nn

CLASS = "MaskedLate"
FLAGS = ["--causal"]
CAUGHT_BY = {"rows-sum", "future-gradient", "future-tokens", "future-length"}


class Head(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.q = nn.Linear(width, size, bias=False)
        self.k = nn.Linear(width, size, bias=False)
        self.v = nn.Linear(width, size, bias=False)

    def forward(self, x):
        weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / self.q.out_features**0.5, dim=2)
        return torch.tril(weights) @ self.v(x)


class MaskedLate(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.heads = nn.ModuleList([Head(width, 8) for _ in range(heads)])
        self.join = nn.Linear(8 * heads, width)
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        h = self.norm(x)
        x = x + self.join(torch.cat([head(h) for head in self.heads], dim=2))
        return self.out(self.last(x))
