"""What the layers of one forward pass share."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Memo:
    """Results of one forward pass that later layers may read. It is made anew for every call of the model."""

    ids: Tensor  # (B, T) the tokens of this call
    start: Tensor  # what enters the first block, in the form of x: (B, T, D), packed (N, D) or (B, D)
    values: Tensor | None = None  # (B, Hkv, T, d) values of the first layer that has some
