"""A bias learned for every pair (i, j) calls itself relative.

It must learn each offset anew at every position, and says nothing of texts that start elsewhere.
"""

from typing import ClassVar

import torch
from torch import nn

from headtohead.parts import Position, PositionHooks

CLASS = "PairBias"
FLAGS = []
CAUGHT_BY = {"shift"}


class PairBias(Position):
    """One learned number per head and pair of positions."""

    equation: ClassVar[str] = "bias_ij = b_h[i, j]"
    reference: ClassVar[str] = "Ke et al. 2021, TUPE, simplified"
    relative: ClassVar[bool] = True

    def build(self, dims):
        return PairBiasHooks(dims)


class PairBiasHooks(PositionHooks):
    def __init__(self, dims):
        super().__init__()
        self.table = nn.Parameter(0.5 * torch.randn(dims.heads, dims.block, dims.block))

    def bias(self, q, k, i, j):
        last = self.table.shape[-1] - 1  # positions beyond the table share its last entry
        i, j = torch.broadcast_tensors(i.clamp(max=last), j.clamp(max=last))  # (B|1, 1, Tq, Tk)
        return self.table[:, i[:, 0], j[:, 0]].transpose(0, 1)
