"""The cache that is returned lacks the newest token: it is saved before the new key is added.

Each generated token is written without sight of the one before it.
"""

import torch
from torch import nn

CLASS = "ForgetsNewest"
FLAGS = ["--causal"]
CAUGHT_BY = {"cache"}


class ForgetsNewest(nn.Module):
    def __init__(self, vocab=23, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, past_key_values=None):
        x = self.embed(ids)
        q, k, v = self.q(x), self.k(x), self.v(x)
        if past_key_values is not None:
            k, v = torch.cat([past_key_values[0], k], dim=1), torch.cat([past_key_values[1], v], dim=1)
        T, S = q.shape[1], k.shape[1]
        remembered = (k[:, :-1], v[:, :-1])
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.ones(T, S, dtype=torch.bool).triu(1 + S - T), -torch.inf)
        x = x + scores.softmax(dim=-1) @ v
        return self.head(self.norm(x)), remembered
