"""A rotary embedding that takes the index of the head for the position.

Queries and keys of one head turn by the same angle, which cancels: the model has no positions and `theta` does nothing.
"""

from typing import ClassVar

import torch

from headtohead.parts import Position, PositionHooks
from headtohead.spec import knob

CLASS = "HeadwiseRope"
FLAGS = []
CAUGHT_BY = {"options"}


class HeadwiseRope(Position):
    """Queries and keys turned by their position."""

    equation: ClassVar[str] = "rotate(x, i) turns pairs by i · theta^(−2m/d)"
    reference: ClassVar[str] = "Su et al. 2021, RoFormer, along the wrong axis"
    relative: ClassVar[bool] = True

    theta: float = knob(default=100.0, gt=1, help="base of the wavelengths")

    def build(self, dims):
        return HeadwiseHooks(dims.head_width, self.theta)


class HeadwiseHooks(PositionHooks):
    def __init__(self, d, theta):
        super().__init__()
        self.register_buffer("frequencies", theta ** (-torch.arange(0, d, 2) / d), persistent=False)

    def rotate(self, x, i):
        angle = torch.arange(x.shape[1])[:, None, None] * self.frequencies  # axis 1 of (B, H, T, d) is not time
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
