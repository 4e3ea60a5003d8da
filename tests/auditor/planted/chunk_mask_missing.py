"""After a cache, new tokens see each other in both directions: right for one token at a time, wrong for several."""

from __future__ import annotations

import torch
from torch import nn

CLASS = "ChunksSeeAhead"
FLAGS = ["--causal"]
CAUGHT_BY = {"cache"}


class ChunksSeeAhead(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(block, width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, vocab)

    def forward(self, ids, cache=None):
        before = cache[0].shape[1] if cache else 0
        x = self.tokens(ids) + self.places(torch.arange(before, before + ids.shape[1]))
        q, k, v = self.q(x), self.k(x), self.v(x)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
            cache[:] = [k, v]
        scores = q @ k.mT / 4
        if not before:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -torch.inf)
        return self.out(x + scores.softmax(-1) @ v)
