"""The local window is compared with <= and lets in one token too many.

Results for a window of 4 are those of a window of 5.
"""

import torch
from torch import nn

CLASS = "TooWide"
FLAGS = ["--causal", "--window", "4"]
CAUGHT_BY = {"window"}


class TooWide(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, window=4):
        super().__init__()
        self.window = window
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        i = torch.arange(ids.shape[1])
        distance = i[:, None] - i[None, :]
        seen = (distance >= 0) & (distance <= self.window)
        x = self.embed(ids) + self.place(i)
        h = self.norm1(x)
        x = x + self.attention(h, h, h, attn_mask=~seen, need_weights=False)[0]
        return self.head(self.norm2(x))
