"""The classifier's mean over time counts the padding.

Short texts are pulled towards the padding vector: the same sentence gets another label in a wider batch.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "PaddedMean"
FLAGS = []
CAUGHT_BY = {"padding-right", "padding-left"}


class PaddedMean(nn.Module):
    def __init__(self, vocab=23, width=16, heads=2, classes=3):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        real = (ids != 0)[:, None, None, :]
        real = real | ~real.any(dim=-1, keepdim=True)
        x = self.embed(ids)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=real)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        return self.head(torch.mean(x, dim=1))
