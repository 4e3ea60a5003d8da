"""ALiBi with the sign of the distance, in an encoder: keys after the query are rewarded for being far.

Every token attends to the end of the text; the paper's formula is right for causal models only.
"""

from typing import ClassVar

import torch

from headtohead.parts import Position, PositionHooks

CLASS = "SignedAlibi"
FLAGS = []
CAUGHT_BY = {"decay"}


class SignedAlibi(Position):
    """A penalty on the scores that grows with distance, or so it says."""

    equation: ClassVar[str] = "bias_ij = −m_h · (i − j)"
    reference: ClassVar[str] = "Press et al. 2021, Train Short, Test Long, misread"
    relative: ClassVar[bool] = True
    decays: ClassVar[bool] = True

    def build(self, dims):
        return SignedAlibiHooks(dims.heads)


class SignedAlibiHooks(PositionHooks):
    def __init__(self, heads):
        super().__init__()
        slopes = torch.tensor([2 ** (-8 * (h + 1) / heads) for h in range(heads)])
        self.register_buffer("slopes", slopes.view(heads, 1, 1), persistent=False)

    def bias(self, q, k, i, j):
        return -self.slopes * (i - j)
