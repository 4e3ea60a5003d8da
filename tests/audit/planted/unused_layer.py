"""A feed-forward is built and never called.

The parameter count reported is that of a model twice as large as the one that runs.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "NeverCalled"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.norm2(x)


class NeverCalled(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.block = Block(width)
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        return self.head(self.last(self.block(x)))
