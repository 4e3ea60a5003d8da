"""The masked language model takes an `attention_mask` and never uses it.

Callers believe that padding is hidden; every real token attends to it.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "IgnoresMask"
FLAGS = []
CAUGHT_BY = {"padding-right"}


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ffn = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, attention_mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v)
        x = self.norm1(x + self.proj(y.transpose(1, 2).flatten(2)))
        return self.norm2(x + self.ffn(x))


class IgnoresMask(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.word = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.layers = nn.ModuleList([Layer(width, heads), Layer(width, heads)])
        self.decoder = nn.Linear(width, vocab)

    def forward(self, ids, attention_mask=None):
        x = self.word(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x, attention_mask)
        return self.decoder(x)
