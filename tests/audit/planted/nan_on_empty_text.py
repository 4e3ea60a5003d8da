"""A text of padding only hides every key with −inf, and the softmax of nothing is NaN.

One empty line in the corpus turns the loss, then every weight, into NaN.
"""

import torch
from torch import nn

CLASS = "EmptyIsNaN"
FLAGS = []
CAUGHT_BY = {"masked-rows"}


class EmptyIsNaN(nn.Module):
    def __init__(self, vocab=23, width=16, heads=2, classes=3):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.norm = nn.LayerNorm(width)
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_kv = nn.Linear(width, 2 * width, bias=False)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, padding_mask=None):
        padding_mask = ids.eq(0) if padding_mask is None else padding_mask.bool()
        x = self.embed(ids)
        h = self.norm(x)
        q = self.to_q(h).unflatten(-1, (self.heads, -1))
        k, v = (t.unflatten(-1, (self.heads, -1)) for t in self.to_kv(h).chunk(2, dim=-1))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5
        weights = scores.masked_fill(padding_mask[:, None, None, :], -torch.inf).softmax(dim=-1)
        x = x + torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2)
        real = (~padding_mask).unsqueeze(-1)
        return self.head((x * real).sum(dim=1) / real.sum(dim=1).clamp(min=1))
