"""Gaussian noise, meant to regularise, is added to the embeddings in evaluation as well.

No two evaluations of one checkpoint agree.
"""

import torch
from torch import nn

CLASS = "NoisyEmbedding"
FLAGS = []
CAUGHT_BY = {"dropout"}


class NoisyEmbedding(nn.Module):
    def __init__(self, vocab=23, width=16, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.hidden = nn.Linear(width, 2 * width)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, ids):
        keep = (ids != 0)[..., None]
        x = self.embed(ids)
        x = (x + 0.1 * torch.randn_like(x)) * keep
        mean = x.sum(dim=1) / keep.sum(dim=1).clamp(min=1)
        return self.head(self.hidden(mean).relu())
