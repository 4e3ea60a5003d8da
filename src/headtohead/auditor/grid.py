"""Which tokens each output may depend on and does depend on, as a grid of positions: the picture of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headtohead.auditor.information import influence
from headtohead.auditor.reach import reach, reach_of_layer
from headtohead.auditor.subject import Subject


@dataclass(frozen=True)
class Grid:
    """Three matrices (T, T) of booleans; row i is an output, column j a token."""

    allowed: Tensor  # the pattern lets position i see position j
    reached: Tensor  # position i may depend on position j through all layers together
    seen: Tensor  # output i has a gradient to token j
    says: str  # the pattern

    def to_json(self) -> dict[str, Any]:
        matrices = {name: getattr(self, name).int().tolist() for name in ("allowed", "reached", "seen")}
        return {"length": len(self.allowed), "says": self.says, **matrices}


def token_grid(s: Subject) -> Grid | None:
    """The grid of a module that gives logits at every token; None for others, or if there is no gradient to tokens."""
    size = influence(s) if s.gives == "tokens" else None
    if size is None:
        return None
    position = torch.arange(s.length)
    i, j = position[:, None], position[None, :]
    if s.spec is not None:
        allowed, says = reach_of_layer(s.spec.layer(0), s.length), str(s.spec.pattern)
    else:
        allowed, says = torch.ones(s.length, s.length, dtype=torch.bool), "all tokens"
        if s.causal:
            allowed, says = j <= i, "the token itself and earlier tokens"
        if s.window is not None:
            allowed, says = allowed & ((i - j).abs() < s.window), f"{says}, fewer than {s.window} away"
    reached = reach(s.spec, s.length) if s.spec is not None else _closure(allowed)
    return Grid(allowed, reached, size > s.tolerance, says)


def _closure(allowed: Tensor) -> Tensor:
    """Return what a token may depend on through any number of layers, and through residual connections."""
    reached = own = torch.eye(len(allowed), dtype=torch.bool)
    for _ in range(len(allowed)):
        reached = (reached.double() @ (allowed | own).double()) > 0
    return reached
