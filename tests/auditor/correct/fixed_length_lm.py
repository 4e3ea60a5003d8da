"""Mixes tokens by a lower-triangular matrix of exactly block × block: other lengths are refused.

Checks that shorten the text do not apply to it; the others do.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "FixedLength"
FLAGS = ["--causal"]


class FixedLength(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.block = block
        self.embed = nn.Embedding(vocab, width)
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Parameter(torch.randn(block, block) / block**0.5)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        if ids.shape[1] != self.block:
            raise ValueError(f"this model reads texts of exactly {self.block} tokens, not {ids.shape[1]}")
        x = self.embed(ids)
        x = x + F.gelu(torch.tril(self.mix) @ self.norm(x))
        return self.head(self.last(x + self.feed(x)))
