"""A rotary position over neighbouring pairs, in half of the heads only: norms kept, offsets only."""

from typing import ClassVar

import torch

from headtohead.parts import Position, PositionHooks
from headtohead.spec import knob

CLASS = "HalfHeadsRope"
FLAGS = []


class HalfHeadsRope(Position):
    """Every other head is turned by its position; the rest know content only."""

    equation: ClassVar[str] = "rotate(x_h, i) turns pairs (x_2m, x_2m+1) by i · theta^(−2m/d) where h is even"
    reference: ClassVar[str] = "Su et al. 2021, RoFormer"
    relative: ClassVar[bool] = True

    theta: float = knob(default=100.0, gt=1, help="base of the wavelengths")

    def build(self, dims):
        return HalfHeadsHooks(dims.head_width, self.theta)


class HalfHeadsHooks(PositionHooks):
    def __init__(self, d, theta):
        super().__init__()
        self.register_buffer("frequencies", theta ** (-torch.arange(0, d, 2) / d), persistent=False)

    def rotate(self, x, i):
        turned = (torch.arange(x.shape[1], device=x.device) % 2 == 0)[:, None, None]  # (H, 1, 1)
        angle = i * self.frequencies * turned
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
