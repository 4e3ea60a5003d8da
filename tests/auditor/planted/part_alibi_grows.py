"""The distance penalty lost its minus sign, so far tokens win.

Attention spreads to both ends of the text, the opposite of what the name promises.
"""

from typing import ClassVar

import torch

from headtohead.parts import Position, PositionHooks
from headtohead.spec import knob

CLASS = "GrowingAlibi"
FLAGS = []
CAUGHT_BY = {"decay"}


class GrowingAlibi(Position):
    """A logarithmic penalty on distance."""

    equation: ClassVar[str] = "bias_ij = slope · log(1 + |i − j|)"
    reference: ClassVar[str] = "Chi et al. 2022, KERPLE, without its minus"
    relative: ClassVar[bool] = True
    decays: ClassVar[bool] = True

    slope: float = knob(default=1.0, gt=0, help="strength of the penalty")

    def build(self, dims):
        return GrowingHooks(self.slope)


class GrowingHooks(PositionHooks):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def bias(self, q, k, i, j):
        return self.slope * torch.log1p((i - j).abs().to(q.dtype))
