"""The mean over all tokens is added to every token as "context".

Each position carries a trace of every later token, and a deeper model learns to read it.
"""

import torch
from torch import nn

CLASS = "WithContext"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens", "future-length"}


class WithContext(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(block, width)
        self.context = nn.Linear(width, width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.tokens(ids) + self.positions(torch.arange(T))
        x = x + self.context(x.mean(dim=1, keepdim=True))
        h = self.norm1(x)
        future = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
        x = x + self.attention(h, h, h, attn_mask=future, need_weights=False)[0]
        return self.head(self.norm2(x))
