"""The padding mask of the first text in the batch is used for all of them.

A long text under a short one loses its end; a short one under a long one attends to padding.
"""

import torch
from torch import nn

CLASS = "FirstRowMask"
FLAGS = []
CAUGHT_BY = {"batch-rows"}


class FirstRowMask(nn.Module):
    def __init__(self, vocab=23, width=16, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.query = nn.Parameter(torch.randn(width) / width**0.5)
        self.value = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, mask=None):
        keep = ids != 0 if mask is None else mask.bool()
        x = self.embed(ids)
        scores = (x @ self.query).masked_fill(~keep[0], -1e9)
        weights = scores.softmax(dim=-1)  # (B, T)
        pooled = torch.einsum("bt,btd->bd", weights, self.value(x))
        return self.head(pooled)
