"""Experts choose their tokens from the whole text (top-k over time), in a causal model.

Whether a token gets an expert depends on the tokens after it. The choice has no gradient, so only changing later
tokens shows it.
"""

import torch
from torch import nn

CLASS = "ExpertChoice"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-tokens", "future-length"}


class ExpertChoice(nn.Module):
    def __init__(self, vocab=23, width=16, experts=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        h, _ = self.gru(self.embed(ids))
        gates = self.router(h).sigmoid()  # (B, T, E)
        capacity = max(1, ids.shape[1] // 2)
        out = h
        for e, expert in enumerate(self.experts):
            chosen = gates[..., e].topk(capacity, dim=1).indices
            taken = torch.zeros_like(gates[..., e]).scatter(1, chosen, 1.0)
            out = out + expert(h) * (gates[..., e] * taken)[..., None]
        return self.head(self.norm(out))
