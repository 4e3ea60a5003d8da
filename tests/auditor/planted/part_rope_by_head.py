"""A rotary embedding that takes the index of the head for the position.

Queries and keys of one head turn by the same angle, which cancels: the model has no positions and `theta` does nothing.
"""

from typing import ClassVar

import torch
from rope_part_base import Turned, TurnedHooks

from headtohead import knob

CLASS = "HeadwiseRope"
FLAGS = []
CAUGHT_BY = {"options"}


class HeadwiseHooks(TurnedHooks):
    def angle(self, x, i):
        return torch.arange(x.shape[1])[:, None, None] * self.frequencies  # axis 1 of (B, H, T, d) is not time


class HeadwiseRope(Turned):
    """Queries and keys turned by their position."""

    equation: ClassVar[str] = "rotate(x, i) turns pairs by i · theta^(−2m/d)"
    reference: ClassVar[str] = "Su et al. 2021, RoFormer, along the wrong axis"

    theta: float = knob(default=100.0, gt=1, help="base of the wavelengths")

    def build(self, dims):
        return HeadwiseHooks(dims.head_width, self.theta)
