"""A rotary embedding whose angle grows with the square of the position.

Norms are kept, so it looks like a rotation; the angle between i and j depends on i + j as well as on i − j.
"""

from typing import ClassVar

from rope_part_base import Turned, TurnedHooks

CLASS = "SquaredRope"
FLAGS = []
CAUGHT_BY = {"shift"}


class SquaredHooks(TurnedHooks):
    def angle(self, x, i):
        return 0.1 * i**2 * self.frequencies


class SquaredRope(Turned):
    """Queries and keys turned by their position."""

    equation: ClassVar[str] = "rotate(x, i) turns pairs by i² · w_m"
    reference: ClassVar[str] = "nobody"

    def build(self, dims):
        return SquaredHooks(dims.head_width)
