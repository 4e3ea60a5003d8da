"""A fixed random projection is a plain attribute, so the state dict does not hold it.

A checkpoint loaded into a new process gets another projection and answers at chance.
"""

import torch
from torch import nn

CLASS = "PlainProjection"
FLAGS = ["--causal"]
CAUGHT_BY = {"state-dict"}


class PlainProjection(nn.Module):
    """Linear attention with random features (Performer-like), by cumulative sums."""

    def __init__(self, vocab=23, width=16, features=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = torch.randn(width, features)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def phi(self, x):
        return (x @ self.projection.to(x.dtype) / x.shape[-1] ** 0.5).exp()

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k = self.phi(q), self.phi(k)
        kv = torch.einsum("btf,btd->btfd", k, v).cumsum(dim=1)
        y = torch.einsum("btf,btfd->btd", q, kv) / (q * k.cumsum(dim=1)).sum(dim=-1, keepdim=True)
        return self.head(self.norm(x + y))
