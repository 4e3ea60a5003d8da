import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (y.view(B, T, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, H, T, T)
        later = torch.ones(T, T, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(dim=-2)
        return self.out((weights @ v).transpose(1, 2).reshape(B, T, D))


class TinyLM(nn.Module):
    """A very small language model with one block."""

    def __init__(self, vocab=50, block=16, width=32, heads=4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(block, width)
        self.first, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.second, self.think = (
            nn.LayerNorm(width),
            nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width)),
        )
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        x = x + self.attention(self.first(x))
        x = x + self.think(self.second(x))
        return self.head(self.last(x))
