"""Queries, keys and values are split into heads by `view` alone, without moving the time axis.

What the code calls a head is a stretch of time, so the causal mask orders pieces of features instead of tokens.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "GroupedView"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class GroupedQueryAttention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, width // heads
        self.q = nn.Linear(width, heads * self.d, bias=False)
        self.kv = nn.Linear(width, 2 * kv_heads * self.d, bias=False)
        self.o = nn.Linear(heads * self.d, width, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        k, v = self.kv(x).chunk(2, dim=-1)
        q = self.q(x).view(B, self.heads, T, self.d)
        k = k.reshape(B, self.kv_heads, T, self.d).repeat_interleave(self.heads // self.kv_heads, dim=1)
        v = v.reshape(B, self.kv_heads, T, self.d).repeat_interleave(self.heads // self.kv_heads, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.reshape(B, T, -1))


class GroupedView(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=4, kv_heads=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = GroupedQueryAttention(width, heads, kv_heads)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        x = x + self.attention(self.norm1(x))
        return self.head(self.norm2(x))
