"""BatchNorm takes its statistics over all texts and all positions while training.

Each token is normalised with the tokens that follow it and with other texts; in evaluation the leak is gone and so is
the accuracy it bought.
"""

import torch.nn.functional as F
from torch import nn

CLASS = "BatchNormed"
FLAGS = ["--causal"]
CAUGHT_BY = {"batch-rows", "future-gradient", "future-tokens"}


class CausalConvBlock(nn.Module):
    def __init__(self, width, kernel):
        super().__init__()
        self.kernel = kernel
        self.norm = nn.BatchNorm1d(width)
        self.conv = nn.Conv1d(width, width, kernel)

    def forward(self, x):  # (B, D, T)
        h = F.pad(F.gelu(self.norm(x)), (self.kernel - 1, 0))
        return x + self.conv(h)


class BatchNormed(nn.Module):
    def __init__(self, vocab=23, width=16, kernel=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.Sequential(CausalConvBlock(width, kernel), CausalConvBlock(width, kernel))
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.blocks(self.embed(ids).transpose(1, 2)).transpose(1, 2)
        return self.head(self.last(x))
