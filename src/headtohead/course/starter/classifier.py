"""Part 1: an encoder with a classifier on top."""

import torch
from torch import nn


class Classifier(nn.Module):
    """Token and position embeddings, blocks, the mean over the real tokens, two linear layers."""

    def __init__(self, vocab, block, width=64, heads=2, layers=4, hidden=100, classes=3):
        super().__init__()
        raise NotImplementedError("part 1: write the layers of Classifier")

    def forward(self, ids, mask=None):
        """Map ids (batch, length) to logits (batch, classes). `mask` (batch, length) is True for real tokens."""
        if mask is None:
            mask = torch.ones_like(ids, dtype=torch.bool)
        raise NotImplementedError("part 1: write Classifier.forward")
