"""The output of attention is detached before it joins the residual stream.

Attention keeps its random weights; everything around it learns, so the model trains and attention seems useless.
"""

import torch
from torch import nn

CLASS = "Detached"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class Detached(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.norm1, self.norm2, self.last = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(T))
        h = self.norm1(x)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        attended, _ = self.attention(h, h, h, attn_mask=future, need_weights=False)
        x = x + attended.detach()
        x = x + self.feed(self.norm2(x))
        return self.head(self.last(x))
