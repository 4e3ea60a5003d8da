"""A rotary embedding whose vectors also grow by a factor per position, for queries and keys alike.

Extrapolating rope shrinks keys by what it grows queries; here scores grow with i + j, so late tokens always win.
"""

from typing import ClassVar

from rope_part_base import Turned, TurnedHooks

from headtohead import knob

CLASS = "GrowingRope"
FLAGS = []
CAUGHT_BY = {"rotation", "shift"}


class GrowingRopeHooks(TurnedHooks):
    def __init__(self, d, growth):
        super().__init__(d, theta=100.0)
        self.growth = growth

    def rotate(self, x, i):
        return super().rotate(x, i) * self.growth ** i.to(x.dtype)


class GrowingRope(Turned):
    """Queries and keys turned by their position."""

    equation: ClassVar[str] = "rotate(x, i) · growth^i"
    reference: ClassVar[str] = "Sun et al. 2022, XPos, with one sign for both"

    growth: float = knob(default=1.05, gt=0, help="factor per position")

    def build(self, dims):
        return GrowingRopeHooks(dims.head_width, self.growth)
