"""Sinusoidal positions as a parameter with `requires_grad=False`, and the mask as a buffer: frozen on purpose."""

import math

import torch
from torch import nn

CLASS = "FrozenSinusoid"
FLAGS = ["--causal"]


class FrozenSinusoid(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        angle = torch.arange(block)[:, None] * rate
        waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        self.waves = nn.Parameter(waves, requires_grad=False)
        self.register_buffer("future", torch.triu(torch.ones(block, block, dtype=torch.bool), 1))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.waves[:T]
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=self.future[:T, :T])[0]
        return self.head(self.norm2(x))
