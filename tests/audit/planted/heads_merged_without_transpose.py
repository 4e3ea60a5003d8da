"""Heads are put back together by `reshape` without moving the time axis back first.

Each token receives a mixture of several positions' outputs, later ones among them.
"""

import torch
from torch import nn

CLASS = "MergedWrong"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class MergedWrong(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        B, T = ids.shape
        x = self.embed(ids) + self.place(torch.arange(T))
        qkv = self.qkv(self.norm(x)).reshape(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)  # (B, H, T, d)
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        scores = scores + torch.full((T, T), -torch.inf).triu(1)
        y = (scores.softmax(-1) @ v).reshape(B, T, -1)
        return self.head(self.last(x + self.out(y)))
