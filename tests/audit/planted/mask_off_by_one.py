"""The causal mask starts one diagonal too high, so every token also sees the next one.

The next token is the answer: training loss falls to almost nothing and generated text is noise.
"""

import torch
from torch import nn

CLASS = "OffByOne"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class Head(nn.Module):
    def __init__(self, width, size, block):
        super().__init__()
        self.query = nn.Linear(width, size, bias=False)
        self.key = nn.Linear(width, size, bias=False)
        self.value = nn.Linear(width, size, bias=False)
        self.register_buffer("hidden", torch.triu(torch.ones(block, block, dtype=torch.bool), diagonal=2))

    def forward(self, x):
        T = x.shape[1]
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        scores = scores.masked_fill(self.hidden[:T, :T], float("-inf"))
        return scores.softmax(dim=-1) @ v


class OffByOne(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(block, width)
        self.heads = nn.ModuleList(Head(width, width // heads, block) for _ in range(heads))
        self.out = nn.Linear(width // heads * heads, width)
        self.norm1, self.norm2, self.last = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        h = self.norm1(x)
        x = x + self.out(torch.cat([head(h) for head in self.heads], dim=-1))
        x = x + self.feed(self.norm2(x))
        return self.head(self.last(x))
