"""Which keys each query may see in one forward pass, and the positions of both; a model has one mask per pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headtohead.parts.sequence.packing import Packing

if TYPE_CHECKING:
    from headtohead.parts.patterns import Pattern


@dataclass(frozen=True)
class Mask:
    """Positions of queries and keys, and which keys a query may see."""

    i: Tensor  # (B|1, 1, Tq, 1) positions of the queries
    j: Tensor  # (B|1, 1, 1, Tk) positions of the keys
    allowed: Tensor  # (B|1, H|1, Tq, Tk); a row that allows no key is all true here, and `sees_any` zeroes its output
    sees_any: Tensor | None  # (B|1, H|1, Tq, 1) whether a query may see any key; None: every query does
    additive: Tensor | None  # `allowed` as numbers to add to scores, 0 or −inf; None: nothing to add
    keep: Tensor | None  # (B, Tq) true at real tokens
    packing: Packing | None = None  # set when the tokens are packed, without padding

    @classmethod
    def of(cls, allowed: Tensor, i: Tensor, j: Tensor, keep: Tensor | None, packing: Packing | None = None) -> Mask:
        sees_any = allowed.any(dim=-1, keepdim=True)
        allowed = allowed | ~sees_any
        additive = torch.zeros_like(allowed, dtype=torch.get_default_dtype()).masked_fill_(~allowed, -torch.inf)
        return cls(i, j, allowed, None if bool(sees_any.all()) else sees_any, additive, keep, packing)

    def texts(self, x: Tensor) -> Tensor:
        """Return x, packed (N, D), one token of each text (B, D) or texts (B, T, D), as texts with zeros at padding."""
        if x.dim() == 2:
            x = x.unsqueeze(1) if self.packing is None else self.packing.spread(x)
        return x if self.keep is None else x * self.keep[:, :, None]

    def like(self, y: Tensor, x: Tensor) -> Tensor:
        """Return texts y (B, T, …) in the form of x."""
        if x.dim() == 3:
            return y
        return y.squeeze(1) if self.packing is None else self.packing.pack(y)


def count_positions(ids: Tensor, keep: Tensor | None, before: int | Tensor, shifted: bool) -> Tensor:
    """Return positions (B|1, T): the number of real tokens before each token, `before` of them in the cache. One row
    serves all texts unless a text has padding on the left, here or (`shifted`) in the cache."""
    if not shifted and not (keep is not None and bool((keep[:, 1:] & ~keep[:, :-1]).any())):
        return torch.arange(ids.shape[1], device=ids.device)[None] + before
    counted = torch.ones_like(ids) if keep is None else keep.long()
    return (counted.cumsum(dim=1) - 1).clamp(min=0) + before


def allowed_pairs(pattern: Pattern, heads: int, i: Tensor, j: Tensor) -> Tensor:
    """Return which queries at i (B|1, 1, Tq, 1) may see which keys at j (B|1, 1, 1, Tk): (B|1, heads|1, Tq, Tk)."""
    return torch.cat([one.allowed(i, j) for one in pattern.by_head(heads)], dim=1)
