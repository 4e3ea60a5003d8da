"""The `slope` knob of a distance penalty is never read.

A sweep over slopes trains the same model again and again.
"""

from typing import ClassVar

from headtohead.parts import Position, PositionHooks
from headtohead.spec import knob

CLASS = "SlopeIgnored"
FLAGS = []
CAUGHT_BY = {"options"}


class SlopeIgnored(Position):
    """A penalty on the scores proportional to distance."""

    equation: ClassVar[str] = "bias_ij = −slope · |i − j|"
    reference: ClassVar[str] = "Press et al. 2021, Train Short, Test Long"
    relative: ClassVar[bool] = True
    decays: ClassVar[bool] = True

    slope: float = knob(default=0.5, gt=0, help="strength of the penalty")

    def build(self, dims):
        return SlopeIgnoredHooks()


class SlopeIgnoredHooks(PositionHooks):
    def bias(self, q, k, i, j):
        return -0.5 * (i - j).abs().to(q.dtype)
