"""A correct rotary part. Planted bugs override its angle or how pairs are turned."""

from typing import ClassVar

import torch

from headtohead import Position, PositionHooks


class TurnedHooks(PositionHooks):
    def __init__(self, d, theta=10_000.0):
        super().__init__()
        self.register_buffer("frequencies", theta ** (-torch.arange(0, d, 2) / d), persistent=False)

    def angle(self, x, i):
        return i * self.frequencies

    def turned(self, a, b, cos, sin):
        return a * cos - b * sin, b * cos + a * sin

    def rotate(self, x, i):
        angle = self.angle(x, i)
        a, b = x.chunk(2, dim=-1)
        return torch.cat(self.turned(a, b, angle.cos().to(x.dtype), angle.sin().to(x.dtype)), dim=-1)


class Turned(Position):
    """Queries and keys turned by their position."""

    equation: ClassVar[str] = "rotate(x, i) turns pairs by i · 10000^(−2m/d)"
    reference: ClassVar[str] = "Su et al. 2021, RoFormer"
    relative: ClassVar[bool] = True

    def build(self, dims):
        return TurnedHooks(dims.head_width)
