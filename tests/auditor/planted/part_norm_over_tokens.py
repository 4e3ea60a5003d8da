"""A norm that divides by the largest vector of the text instead of by each vector's own size.

One loud token later in the text turns down every token before it.
"""

from typing import ClassVar

import torch
from torch import nn

from headtohead.parts import Norm

CLASS = "LoudestNorm"
FLAGS = []
CAUGHT_BY = {"future-gradient", "future-tokens"}


class LoudestNorm(Norm):
    """Vectors scaled to a common size."""

    equation: ClassVar[str] = "x_t · sqrt(D) / max_s |x_s| · g"
    reference: ClassVar[str] = "nobody"

    def build(self, width):
        return Loudest(width)


class Loudest(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):  # (…, T, D)
        size = x.norm(dim=-1, keepdim=True).amax(dim=-2, keepdim=True)
        return x * x.shape[-1] ** 0.5 / size.clamp(min=1e-6) * self.gain
