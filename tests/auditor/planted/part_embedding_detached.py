"""A learned position is scaled by a detached gain, which receives no gradient.

The gain stays at its start, whatever the data say.
"""

from typing import ClassVar

import torch
from torch import nn

from headtohead.parts import Position, PositionHooks

CLASS = "GainedPosition"
FLAGS = []
CAUGHT_BY = {"gradients"}


class GainedPosition(Position):
    """One learned vector per position, times a learned gain."""

    equation: ClassVar[str] = "x_i = e_i + g · p[i]"
    reference: ClassVar[str] = "nobody"

    def build(self, dims):
        return GainedHooks(dims)


class GainedHooks(PositionHooks):
    def __init__(self, dims):
        super().__init__()
        self.table = nn.Embedding(dims.block, dims.width)
        self.gain = nn.Parameter(torch.ones(()))

    def embed(self, x, i):
        return x + self.gain.detach() * self.table(i)
