"""A convolution with `padding="same"` stands in front of causal attention.

It looks (kernel − 1)/2 tokens ahead in every layer, which is enough to copy the next token.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "ConvThenAttend"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class ConvThenAttend(nn.Module):
    def __init__(self, vocab=23, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.local = nn.Conv1d(width, width, kernel_size=3, padding="same")
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocab))

    def forward(self, ids):
        x = self.embed(ids)
        x = x + F.relu(self.local(x.mT)).mT
        q, k, v = torch.stack(
            [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, dim=-1)]
        )
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + self.out(o.transpose(1, 2).flatten(2)))
