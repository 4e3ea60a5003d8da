"""A position of the user's own that keeps its word: relative, and falling with distance on both sides."""

from typing import ClassVar

import torch

from headtohead.parts import Position, PositionHooks
from headtohead.spec import knob

CLASS = "LogDistance"
FLAGS = []


class LogDistance(Position):
    """A penalty on the scores that grows with the logarithm of the distance."""

    equation: ClassVar[str] = "bias_ij = −strength · log(1 + rate · |i − j|)"
    reference: ClassVar[str] = "Chi et al. 2022, KERPLE"
    relative: ClassVar[bool] = True
    decays: ClassVar[bool] = True

    strength: float = knob(default=1.0, gt=0, help="of the penalty")
    rate: float = knob(default=1.0, gt=0, help="of distance inside the logarithm")

    def build(self, dims):
        return LogDistanceHooks(self.strength, self.rate)


class LogDistanceHooks(PositionHooks):
    def __init__(self, strength, rate):
        super().__init__()
        self.strength, self.rate = strength, rate

    def bias(self, q, k, i, j):
        return -self.strength * torch.log1p(self.rate * (i - j).abs().to(q.dtype))
