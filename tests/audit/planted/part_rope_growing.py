"""A rotary embedding whose vectors also grow by a factor per position, for queries and keys alike.

Extrapolating rope shrinks keys by what it grows queries; here scores grow with i + j, so late tokens always win.
"""

from typing import ClassVar

import torch

from headtohead.parts import Position, PositionHooks
from headtohead.spec import knob

CLASS = "GrowingRope"
FLAGS = []
CAUGHT_BY = {"rotation", "shift"}


class GrowingRope(Position):
    """Queries and keys turned by their position, with a decay."""

    equation: ClassVar[str] = "rotate(x, i) · growth^i"
    reference: ClassVar[str] = "Sun et al. 2022, XPos, with one sign for both"
    relative: ClassVar[bool] = True

    growth: float = knob(default=1.05, gt=0, help="factor per position")

    def build(self, dims):
        return GrowingRopeHooks(dims.head_width, self.growth)


class GrowingRopeHooks(PositionHooks):
    def __init__(self, d, growth):
        super().__init__()
        self.growth = growth
        self.register_buffer("frequencies", 100.0 ** (-torch.arange(0, d, 2) / d), persistent=False)

    def rotate(self, x, i):
        angle = i * self.frequencies
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., ::2], x[..., 1::2]
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
        return turned * self.growth ** i.to(x.dtype)
