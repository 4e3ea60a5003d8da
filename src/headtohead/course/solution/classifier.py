"""Part 1, solution: an encoder with a classifier on top."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    """Self-attention of several heads. Scores are divided by the square root of a head's width."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x, hidden=None):
        """`hidden` (B, 1 or length, length) is True where a token must not be seen."""
        q, k, v = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, None], float("-inf"))
        weights = scores.softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))

    def split(self, x):
        """(B, length, width) to (B, heads, length, width of a head)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x, hidden=None):
        x = x + self.attention(self.norm1(x), hidden)
        return x + self.feedforward(self.norm2(x))


class Classifier(nn.Module):
    def __init__(self, vocab, block, width=64, heads=2, layers=4, hidden=100, classes=3):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(block, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, ids, mask=None):
        if mask is None:
            mask = torch.ones_like(ids, dtype=torch.bool)
        mask = mask.bool()
        # a text without any token sees its padding, so that nothing becomes NaN; its mean is zero
        hidden = (~mask & mask.any(dim=1, keepdim=True))[:, None]
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, hidden)
        real = mask[..., None].to(x.dtype)
        mean = (x * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return self.head(mean)
