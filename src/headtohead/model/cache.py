"""What a language model keeps between calls: the state of each layer, positions, and precomputed masks."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from headtohead.parts import Pattern
from headtohead.parts.sequence.mask import Mask, allowed_pairs, count_positions
from headtohead.parts.sequence.state import LayerCache


@dataclass(frozen=True)
class DecodingPlan:
    """The masks of all positions of the block, computed once: to compute one per token takes longer than attention."""

    j: Tensor  # (1, 1, 1, block)
    i: tuple[Tensor, ...]  # block × (1, 1, 1, 1)
    allowed: tuple[Tensor, ...]  # block × (1, H|1, 1, block)
    sees_all: list[bool]  # whether the token at a position sees itself and all earlier tokens

    @classmethod
    def of(cls, pattern: Pattern, heads: int, block: int, device: torch.device) -> DecodingPlan:
        n = torch.arange(block, device=device)
        allowed = allowed_pairs(pattern, heads, n[None, None, :, None], n[None, None, None, :])
        allowed = allowed.expand(1, -1, block, block)  # (1, H|1, block, block)
        past = allowed[0].all(dim=0) | torch.ones_like(allowed[0, 0]).triu(1)
        rows = allowed.permute(2, 0, 1, 3)[:, :, :, None].unbind()
        return cls(n.view(1, 1, 1, -1), n.view(-1, 1, 1, 1, 1).unbind(), rows, past.all(dim=-1).tolist())

    def mask(self, n: int) -> Mask:
        """Return the mask of one token at position n, with the tokens up to n as keys."""
        i, j, allowed = self.i[n], self.j.narrow(3, 0, n + 1), self.allowed[n].narrow(3, 0, n + 1)
        if self.sees_all[n]:
            return Mask(i, j, allowed, None, None, None)
        return Mask.of(allowed, i, j, None)


@dataclass
class Cache:
    """What every layer keeps, and the positions of the tokens so far."""

    layers: list[LayerCache] = field(default_factory=list)
    positions: Tensor | None = None  # (B|1, Tk)
    keep: Tensor | None = None  # (B, Tk)
    embedding: LayerCache = field(default_factory=LayerCache)  # what the embedding keeps of earlier tokens
    plans: tuple[DecodingPlan, ...] = ()  # one for each pattern; only while calls have no padding, positions or dropout

    @property
    def length(self) -> int:
        return 0 if self.positions is None else self.positions.shape[1]

    @property
    def bytes(self) -> int:
        """Memory of what the layers keep for the texts so far."""
        return self.embedding.bytes + sum(layer.bytes for layer in self.layers)

    def rows(self, count: int) -> Cache:
        """Return a cache that holds its one text `count` times, to generate several continuations."""
        layers = [layer.rows(count) for layer in self.layers]
        return Cache(layers, self.positions, None, self.embedding.rows(count), self.plans)

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
