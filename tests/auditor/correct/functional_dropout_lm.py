"""Heavy dropout, functional and in attention, both told whether the model trains."""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "HeavyDropout"
FLAGS = ["--causal"]


class HeavyDropout(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, dropout=0.5):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        x = F.dropout(x, self.dropout, training=self.training)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True).transpose(1, 2).flatten(2)
        x = x + F.dropout(self.out(y), self.dropout, self.training)
        return self.head(self.norm2(x))
