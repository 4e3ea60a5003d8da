"""What one layer keeps between calls: keys and values, or the state of a recurrence, behind one interface."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class LayerCache:
    """Keys and values of one layer so far, its other states by name, and the joint projection of q, k and v."""

    k: Tensor | None = None  # (B, Hkv, Tk, d), already rotated
    v: Tensor | None = None
    projection: tuple[Tensor, Tensor | None] | None = None  # weight and bias of q, k and v, concatenated
    buffers: tuple[Tensor, Tensor] | None = None  # (B, Hkv, at least Tk, d): k and v are views of their beginning
    states: dict[str, Tensor] = field(default_factory=dict)  # (B, …) each: recurrences, last inputs of convolutions

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
        """Return a cache that holds its one text `count` times."""
        k, v = (None if x is None else x.expand(count, *x.shape[1:]) for x in (self.k, self.v))
        states = {name: x.expand(count, *x.shape[1:]) for name, x in self.states.items()}
        return LayerCache(k, v, self.projection, states=states)

    @property
    def bytes(self) -> int:
        """Memory of what is kept for the texts so far, without spare room in buffers."""
        kept = [x for x in (self.k, self.v, *self.states.values()) if x is not None]
        return sum(x.numel() * x.element_size() for x in kept)


def _in_larger_buffer(x: Tensor, length: int) -> Tensor:
    buffer = x.new_empty(*x.shape[:2], length, x.shape[3])
    buffer.narrow(2, 0, x.shape[2]).copy_(x)
    return buffer
