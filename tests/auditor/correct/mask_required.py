"""Needs the keep mask, positional."""

import torch
from torch import nn

CLASS = "Clf"
FLAGS = []


class Clf(nn.Module):
    def __init__(self, vocab=40, d=16, classes=2):
        super().__init__()
        self.emb, self.att, self.out = nn.Embedding(vocab, d), nn.Linear(d, 1), nn.Linear(d, classes)

    def forward(self, ids, mask):
        if mask.dtype != torch.bool:
            mask = mask > 0
        x = self.emb(ids)
        s = self.att(x.tanh()).masked_fill(~mask[..., None], torch.finfo(x.dtype).min)
        return self.out((s.softmax(1) * x * mask[..., None]).sum(1))
