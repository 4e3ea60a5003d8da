"""Each layer is a plain tuple of modules inside a list, so an nn.Module is nowhere an attribute.

Half of the network stays at its random start.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "Stages"
FLAGS = ["--causal"]
CAUGHT_BY = {"registered"}


class Stages(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.stages = [
            (nn.LayerNorm(width), [nn.Linear(width, 3 * width), nn.Linear(width, width)]) for _ in range(depth)
        ]
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        for norm, (qkv, out) in self.stages:
            q, k, v = qkv(norm(x)).chunk(3, dim=-1)
            x = x + out(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self.head(self.norm(x))
