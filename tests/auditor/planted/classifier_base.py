"""A correct encoder without positions that classifies texts with padding. Planted bugs override one of its methods."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab=23, width=16, heads=2, classes=3):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, keep=None):
        keep = self.kept(ids, keep)
        x = self.embedded(ids)
        x = x + self.out(self.attend(self.norm(x), self.seen(keep)[:, None, None, :]))
        return self.head(self.pool(self.last(x), keep))

    def kept(self, ids, keep):  # (B, T)
        return ids != 0 if keep is None else keep.bool()

    def embedded(self, ids):
        return self.embed(ids)

    def seen(self, keep):
        return keep

    def attend(self, x, seen):
        q, k, v = self.split(x)
        y = self.weights(q @ k.mT / q.shape[-1] ** 0.5, seen) @ v
        return y.transpose(1, 2).flatten(2)

    def split(self, x):  # (B, H, T, d) each
        return (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))

    def weights(self, scores, seen):
        return scores.masked_fill(~seen, -torch.inf).softmax(dim=-1).nan_to_num(0.0)

    def pool(self, x, keep):
        return (x * keep[..., None]).sum(dim=1) / keep.sum(dim=1, keepdim=True).clamp(min=1)
