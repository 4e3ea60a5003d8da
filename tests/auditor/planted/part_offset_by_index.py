"""The relative bias takes offsets from the index of the column, not from the positions it is given.

Right over a whole text; with a cache the newest token is always column 0 and every distance is wrong.
"""

from typing import ClassVar

import torch
from torch import nn

from headtohead.parts import Position, PositionHooks

CLASS = "IndexBias"
FLAGS = []
CAUGHT_BY = {"cache"}


class IndexBias(Position):
    """One learned number per head and offset."""

    equation: ClassVar[str] = "bias_ij = b_h[i − j]"
    reference: ClassVar[str] = "Shaw et al. 2018, simplified"
    relative: ClassVar[bool] = True

    def build(self, dims):
        return IndexBiasHooks(dims)


class IndexBiasHooks(PositionHooks):
    def __init__(self, dims):
        super().__init__()
        self.block = dims.block
        self.table = nn.Parameter(0.5 * torch.randn(dims.heads, 2 * dims.block - 1))

    def bias(self, q, k, i, j):
        rows, columns = torch.arange(q.shape[2]), torch.arange(k.shape[2])
        return self.table[:, rows[:, None] - columns[None, :] + self.block - 1]
