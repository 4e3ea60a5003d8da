"""Max pooling runs over the padding too.

Wherever the padding vector is larger than a text's own features, it wins; more padding never hurts, one token does.
"""

import torch
from torch import nn

CLASS = "MaxPooled"
FLAGS = []
CAUGHT_BY = {"padding-right", "padding-left"}


class MaxPooled(nn.Module):
    """A deep-sets classifier: each token on its own, then the largest value of each feature."""

    def __init__(self, vocab=23, width=16, classes=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.each = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.LayerNorm(width)
        )
        self.head = nn.Linear(width, classes)
        nn.init.normal_(self.head.weight, std=0.05)

    def forward(self, ids):
        x = self.each(self.embed(ids))
        strongest, _ = torch.max(x, dim=1)
        return self.head(strongest)
