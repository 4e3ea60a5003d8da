"""A rotary embedding whose angle grows with the square of the position.

Norms are kept, so it looks like a rotation; the angle between i and j depends on i + j as well as on i − j.
"""

from typing import ClassVar

import torch

from headtohead.parts import Position, PositionHooks

CLASS = "SquaredRope"
FLAGS = []
CAUGHT_BY = {"shift"}


class SquaredRope(Position):
    """Queries and keys turned by their position, faster further on."""

    equation: ClassVar[str] = "rotate(x, i) turns pairs by i² · w_m"
    reference: ClassVar[str] = "nobody"
    relative: ClassVar[bool] = True

    def build(self, dims):
        return SquaredHooks(dims.head_width)


class SquaredHooks(PositionHooks):
    def __init__(self, d):
        super().__init__()
        self.register_buffer("frequencies", 0.1 * 10_000.0 ** (-torch.arange(0, d, 2) / d), persistent=False)

    def rotate(self, x, i):
        angle = i**2 * self.frequencies
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
