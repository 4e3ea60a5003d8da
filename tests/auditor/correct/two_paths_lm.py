"""A fast and an explicit attention that agree up to rounding; the switch is an option that must not matter."""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "TwoPathsAgree"
FLAGS = ["--causal"]


class TwoPathsAgree(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, use_flash=True):
        super().__init__()
        self.heads, self.use_flash = heads, use_flash
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab)

    def attend(self, q, k, v):
        if self.use_flash:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        T = q.shape[2]
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf).softmax(dim=-1) @ v

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return self.head(self.norm2(x))
