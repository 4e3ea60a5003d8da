"""Masked scores get −10 instead of −inf, so every future token keeps a weight of about e^−10.

The leak is small enough to look like a better model and large enough to be learned.
"""

import torch
from torch import nn

CLASS = "MinusTen"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class MinusTen(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(block, width)
        self.ln = nn.LayerNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width)
        self.ln_f = nn.LayerNorm(width)
        self.fc = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.size(1)
        x = self.tok(ids) + self.pos.weight[:T]
        h = self.ln(x)
        scores = self.q(h) @ self.k(h).mT / self.q.out_features**0.5
        mask = torch.triu(torch.full((T, T), -10.0, dtype=scores.dtype), diagonal=1)
        x = x + torch.softmax(scores + mask, dim=-1) @ self.v(h)
        return self.fc(self.ln_f(x))
