"""A feed-forward that mixes each token with a neighbour, and takes the neighbour on the wrong side.

It is called position-wise and hands every token the next one.
"""

from typing import ClassVar

import torch.nn.functional as F
from torch import nn

from headtohead.parts import FeedForward

CLASS = "ShiftedMlp"
FLAGS = []
CAUGHT_BY = {"future-gradient", "future-tokens"}


class ShiftedMlp(FeedForward):
    """Two layers over a token and its neighbour."""

    equation: ClassVar[str] = "W_2 · relu(W_1 · (x_t + x_{t+1}))"
    reference: ClassVar[str] = "nobody"

    def build(self, dims):
        return Shifted(dims.width)


class Shifted(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.down.into_residual = True

    def forward(self, x):  # (B, T, D)
        neighbour = F.pad(x, (0, 0, 0, 1))[:, 1:]
        return self.down(F.relu(self.up(x + neighbour)))
