"""What a language model keeps between calls: keys, values, their positions, and precomputed masks."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from headtohead.model.mask import Mask, count_positions
from headtohead.parts import Pattern


@dataclass
class LayerCache:
    """Keys and values of one layer so far, and the joint projection of q, k and v."""

    k: Tensor | None = None  # (B, Hkv, Tk, d), already rotated
    v: Tensor | None = None
    projection: tuple[Tensor, Tensor | None] | None = None  # weight and bias of q, k and v, concatenated
    buffers: tuple[Tensor, Tensor] | None = None  # (B, Hkv, at least Tk, d): k and v are views of their beginning

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append new keys and values (B, Hkv, T, d), and return all of them."""
        if self.k is None or self.v is None:
            self.k, self.v = k, v
        elif torch.is_grad_enabled():
            self.k, self.v = torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2)
        else:
            old, new = self.k.size(2), k.size(2)
            total = old + new
            if self.buffers is None or self.buffers[0].size(2) < total:
                self.buffers = _in_larger_buffer(self.k, 2 * total), _in_larger_buffer(self.v, 2 * total)
            keys, values = self.buffers
            keys.narrow(2, old, new).copy_(k)
            values.narrow(2, old, new).copy_(v)
            self.k, self.v = keys.narrow(2, 0, total), values.narrow(2, 0, total)
        return self.k, self.v

    def rows(self, count: int) -> LayerCache:
        assert self.k is not None
        assert self.v is not None
        return LayerCache(self.k.expand(count, -1, -1, -1), self.v.expand(count, -1, -1, -1), self.projection)


def _in_larger_buffer(x: Tensor, length: int) -> Tensor:
    buffer = x.new_empty(*x.shape[:2], length, x.shape[3])
    buffer.narrow(2, 0, x.shape[2]).copy_(x)
    return buffer


@dataclass(frozen=True)
class DecodingPlan:
    """The masks of all positions of the block, computed once: to compute one per token takes longer than attention."""

    j: Tensor  # (1, 1, 1, block)
    i: tuple[Tensor, ...]  # block × (1, 1, 1, 1)
    allowed: tuple[Tensor, ...]  # block × (1, 1, 1, block)
    sees_all: list[bool]  # whether the token at a position sees itself and all earlier tokens

    @classmethod
    def of(cls, pattern: Pattern, block: int, device: torch.device) -> DecodingPlan:
        n = torch.arange(block, device=device)
        allowed = pattern.allowed(n[None, None, :, None], n[None, None, None, :])  # (1, 1, block, block)
        past = allowed[0, 0] | torch.ones_like(allowed[0, 0]).triu(1)
        rows = allowed.expand(1, 1, block, block).permute(2, 0, 1, 3)[:, None].unbind()
        return cls(n.view(1, 1, 1, -1), n.view(-1, 1, 1, 1, 1).unbind(), rows, past.all(dim=-1).tolist())

    def mask(self, n: int) -> Mask:
        """Return the mask of one token at position n, with the tokens up to n as keys."""
        i, j, allowed = self.i[n], self.j.narrow(3, 0, n + 1), self.allowed[n].narrow(3, 0, n + 1)
        if self.sees_all[n]:
            return Mask(i, j, allowed, None, None, None)
        return Mask.of(allowed, i, j, None)


@dataclass
class Cache:
    """Keys and values of every layer, and their positions."""

    layers: list[LayerCache] = field(default_factory=list)
    positions: Tensor | None = None  # (B|1, Tk)
    keep: Tensor | None = None  # (B, Tk)
    plan: DecodingPlan | None = None  # only while calls have no padding, given positions or dropout

    @property
    def length(self) -> int:
        return 0 if self.positions is None else self.positions.shape[1]

    def rows(self, count: int) -> Cache:
        """Return a cache that holds its one text `count` times, to generate several continuations."""
        return Cache([layer.rows(count) for layer in self.layers], self.positions, None, self.plan)

    def next_positions(self, ids: Tensor, keep: Tensor | None) -> Tensor:
        """Return the positions (B|1, T) of tokens that follow those in the cache."""
        if self.keep is None:
            return count_positions(ids, keep, self.length, shifted=False)
        return count_positions(ids, keep, self.keep.sum(dim=1, keepdim=True), shifted=not bool(self.keep.all()))

    def remember(self, i: Tensor, keep: Tensor | None, ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """Add tokens at positions i, and return positions and keep mask of all keys."""
        if keep is not None or self.keep is not None:
            old = self.keep if self.keep is not None else ids.new_ones(len(ids), self.length, dtype=torch.bool)
            self.keep = torch.cat([old, torch.ones_like(ids, dtype=torch.bool) if keep is None else keep], dim=1)
        if self.positions is None:
            self.positions = i
        else:
            rows = max(len(i), len(self.positions))
            self.positions = torch.cat([self.positions.expand(rows, -1), i.expand(rows, -1)], dim=1)
        return self.positions, self.keep
