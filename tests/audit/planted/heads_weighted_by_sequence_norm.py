"""Heads are re-weighted by the norm of their output over the whole text.

The weights at position t depend on tokens after t, so an honest mask still lets the future through.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "NormWeighted"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens", "future-length"}


class NormWeighted(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.where = nn.Embedding(block, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.mix = nn.Linear(width, width)
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.where(torch.arange(ids.shape[1]))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d)
        size = o.norm(dim=(-2, -1), keepdim=True)
        o = o * size / size.mean(dim=1, keepdim=True)
        x = x + self.mix(o.transpose(1, 2).flatten(2))
        return self.head(self.last(x))
