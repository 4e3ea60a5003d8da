"""A rotary embedding with a plus where the rotation matrix has a minus: it stretches instead of turning.

Scores grow and shrink with absolute position, and nothing depends on the offset alone.
"""

from typing import ClassVar

from rope_part_base import Turned, TurnedHooks

CLASS = "StretchedRope"
FLAGS = []
CAUGHT_BY = {"rotation"}


class StretchedHooks(TurnedHooks):
    def turned(self, a, b, cos, sin):
        return a * cos + b * sin, b * cos + a * sin


class StretchedRope(Turned):
    """Queries and keys turned by their position."""

    equation: ClassVar[str] = "(a cos + b sin, a sin + b cos)"
    reference: ClassVar[str] = "Su et al. 2021, RoFormer, with a sign lost"

    def build(self, dims):
        return StretchedHooks(dims.head_width)
