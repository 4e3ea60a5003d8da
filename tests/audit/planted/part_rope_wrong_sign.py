"""A rotary embedding with a plus where the rotation matrix has a minus: it stretches instead of turning.

Scores grow and shrink with absolute position, and nothing depends on the offset alone.
"""

from typing import ClassVar

import torch

from headtohead.parts import Position, PositionHooks

CLASS = "StretchedRope"
FLAGS = []
CAUGHT_BY = {"rotation"}


class StretchedRope(Position):
    """Queries and keys turned by their position."""

    equation: ClassVar[str] = "(a cos + b sin, a sin + b cos)"
    reference: ClassVar[str] = "Su et al. 2021, RoFormer, with a sign lost"
    relative: ClassVar[bool] = True

    def build(self, dims):
        return StretchedHooks(dims.head_width)


class StretchedHooks(PositionHooks):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("frequencies", 10_000.0 ** (-torch.arange(0, d, 2) / d), persistent=False)

    def rotate(self, x, i):
        angle = i * self.frequencies
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos + b * sin, a * sin + b * cos], dim=-1)
