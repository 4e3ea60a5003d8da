"""Causal convolutions with growing dilation, padded on the left only (WaveNet's shape)."""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "DilatedConvs"
FLAGS = ["--causal"]


class DilatedConvs(nn.Module):
    def __init__(self, vocab=23, width=16, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.convs = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**n) for n in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        for conv in self.convs:
            value, gate = conv(F.pad(x, (conv.dilation[0], 0))).chunk(2, dim=1)
            x = x + torch.tanh(value) * torch.sigmoid(gate)
        return self.head(self.norm(x.transpose(1, 2)))
