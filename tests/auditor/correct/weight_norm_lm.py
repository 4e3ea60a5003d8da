"""A layer re-parametrised by weight norm: the weight used is computed from two parameters at every call."""

import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

CLASS = "WeightNormed"
FLAGS = ["--causal"]


class WeightNormed(nn.Module):
    def __init__(self, vocab=23, width=16, kernel=3):
        super().__init__()
        self.kernel = kernel
        self.embed = nn.Embedding(vocab, width)
        self.conv = weight_norm(nn.Conv1d(width, width, kernel))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        y = self.conv(F.pad(x.mT, (self.kernel - 1, 0))).mT
        return self.head(self.norm(x + F.silu(y)))
