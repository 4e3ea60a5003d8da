"""Stores its last attention map on itself to be looked at: a tensor with a gradient that is no weight.

Such a module cannot be deep-copied once it has run, and the map belongs in no state dict.
"""

import torch
from torch import nn

CLASS = "KeepsMap"
FLAGS = ["--causal"]


class KeepsMap(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)
        self.last_map = None

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(T, device=ids.device))
        h = self.norm1(x)
        future = torch.ones(T, T, dtype=torch.bool, device=ids.device).triu(1)
        y, self.last_map = self.attention(h, h, h, attn_mask=future, average_attn_weights=False)
        return self.head(self.norm2(x + y))
