"""One layer of causal attention over exactly four tokens, the token's own among them."""

import torch
from torch import nn

CLASS = "Windowed"
FLAGS = ["--causal", "--window", "4"]


class Windowed(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, window=4):
        super().__init__()
        self.window = window
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        i = torch.arange(ids.shape[1], device=ids.device)
        distance = i[:, None] - i[None, :]
        seen = (distance >= 0) & (distance < self.window)
        x = self.embed(ids) + self.place(i)
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=~seen, need_weights=False)[0]
        return self.head(self.norm2(x))
