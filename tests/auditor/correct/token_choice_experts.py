"""Each token picks one of four experts. A small batch may leave an expert without tokens, and so without gradient.

The choice is made by the token alone, so it is causal; an idle expert is not a dead one.
"""

import torch
from torch import nn

CLASS = "TokenChoice"
FLAGS = ["--causal"]


class TokenChoice(nn.Module):
    def __init__(self, vocab=23, width=16, experts=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        h, _ = self.gru(self.embed(ids))
        gate, choice = self.router(h).softmax(dim=-1).max(dim=-1)  # (B, T)
        out = torch.zeros_like(h)
        for e, expert in enumerate(self.experts):
            chosen = choice == e
            if chosen.any():
                out = out.masked_scatter(chosen[..., None], expert(h[chosen]))
        return self.head(self.norm(h + gate[..., None] * out))
