"""The layers are kept in a plain dict instead of nn.ModuleDict.

Only embedding and head are trained; the model still learns something, so the loss curve looks merely poor.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "DictOfLayers"
FLAGS = ["--causal"]
CAUGHT_BY = {"registered"}


class DictOfLayers(nn.Module):
    def __init__(self, vocab=23, width=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = {f"layer{n}": nn.Conv1d(width, width, kernel_size=3) for n in range(layers)}
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        for name in sorted(self.layers):
            x = x + torch.tanh(self.layers[name](F.pad(x, (2, 0))))
        return self.head(self.norm(x.transpose(1, 2)))
