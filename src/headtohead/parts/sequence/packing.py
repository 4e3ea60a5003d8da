"""Packing: the real tokens of a batch in one list, without padding, for layers that treat each token separately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """The real tokens of a batch as one list (N, D), so that layers that treat each token separately skip padding."""

    rows: Tensor  # (N,) index of each real token among all B·T
    back: Tensor  # (B·T,) index in the list of each token; for padding that of a real token, which masks hide
    keep: Tensor  # (B, T)

    @classmethod
    def of(cls, keep: Tensor) -> Packing | None:
        """Return None if no token, or every token, is padding."""
        flat = keep.flatten()
        rows = flat.nonzero()[:, 0]
        if len(rows) in (0, len(flat)):
            return None
        return cls(rows, (flat.cumsum(dim=0) - 1).clamp_(min=0), keep)

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, D) → (N, D)."""
        return _Pack.apply(x.flatten(0, 1), self)

    def spread(self, x: Tensor) -> Tensor:
        """(N, D) → (B, T, D). Values at padding are arbitrary and get no gradient."""
        return _Spread.apply(x, self).unflatten(0, self.keep.shape)


class _Pack(torch.autograd.Function):
    """Select the real tokens. Their gradient is copied; autograd's would be a slower sum, as for repeated indices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packing: Packing) -> Tensor:
        ctx.packing = packing
        return x.index_select(0, packing.rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        spread = grad.new_zeros(len(ctx.packing.back), grad.shape[1])
        return spread.index_copy_(0, ctx.packing.rows, grad), None


class _Spread(torch.autograd.Function):
    """Put every token back at its index. Padding repeats a token instead of being zero, which saves a pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packing: Packing) -> Tensor:
        ctx.packing = packing
        return x.index_select(0, packing.back)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.packing.rows), None
