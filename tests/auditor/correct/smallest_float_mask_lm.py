"""Hidden scores get the smallest finite number of their type, and a padding mask is added on top of the causal one.

Rows without any real key come out uniform instead of NaN.
"""

import torch
from torch import nn

CLASS = "SmallestFloat"
FLAGS = ["--causal"]


class SmallestFloat(nn.Module):
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

    def forward(self, ids, mask=None):
        B, T = ids.shape
        keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        x = self.embed(ids) + self.place((keep.long().cumsum(dim=1) - 1).clamp(min=0))
        q, k, v = self.qkv(self.norm(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        seen = torch.ones(T, T, dtype=torch.bool, device=ids.device).tril() & keep[:, None, None, :]
        weights = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(B, T, -1))
        return self.head(self.last(x))
