"""The softmax runs over the queries (dim −2) instead of the keys.

A token's weights are divided by what later tokens ask for, so the future leaks and no row sums to one.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "WrongAxis"
FLAGS = ["--causal"]
CAUGHT_BY = {"rows-sum", "future-gradient", "future-tokens"}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.to_out = nn.Linear(width, width)

    def forward(self, x):
        T = x.size(1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * q.size(-1) ** -0.5
        dots = dots.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
        attn = F.softmax(dots, dim=-2)
        return self.to_out(torch.einsum("bhij,bhjd->bhid", attn, v).transpose(1, 2).flatten(2))


class WrongAxis(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.pos = nn.Parameter(torch.randn(block, width) * 0.1)
        self.norm = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.to_logits = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocab))

    def forward(self, ids):
        x = self.embed(ids) + self.pos[: ids.size(1)]
        return self.to_logits(x + self.attn(self.norm(x)))
