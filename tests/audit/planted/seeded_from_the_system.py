"""Weights are drawn from a generator of their own that is seeded by the operating system.

`torch.manual_seed` has no say: no run can be repeated, and two arms with "the same seed" start apart.
"""

import os

import torch
from torch import nn

CLASS = "OwnGenerator"
FLAGS = ["--causal"]
CAUGHT_BY = {"seed"}


class OwnGenerator(nn.Module):
    def __init__(self, vocab=23, width=16):
        super().__init__()
        draw = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "big"))
        self.embed = nn.Parameter(torch.randn(vocab, width, generator=draw))
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.embed[ids])[0])
