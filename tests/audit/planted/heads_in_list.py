"""The attention heads are kept in a plain Python list.

PyTorch does not see them: they are never trained, never saved and never moved to another device.
"""

import torch
from torch import nn

CLASS = "ListOfHeads"
FLAGS = ["--causal"]
CAUGHT_BY = {"registered"}


class Head(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.query = nn.Linear(width, size, bias=False)
        self.key = nn.Linear(width, size, bias=False)
        self.value = nn.Linear(width, size, bias=False)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return scores.masked_fill(future, float("-inf")).softmax(dim=-1) @ v


class ListOfHeads(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(block, width)
        self.heads = [Head(width, width // heads) for _ in range(heads)]
        self.join = nn.Linear(width // heads * heads, width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        x = x + self.join(torch.cat([head(x) for head in self.heads], dim=-1))
        return self.out(self.norm(x))
