"""A map in a few numbers a head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headtohead.inspect.maps import Maps

QUERIES = 256


def summary(maps: Maps) -> list[dict[str, Any]]:
    """Of each head its numbers, and the strongest look of a token at another."""
    rows = []
    for layer, of_layer in zip(maps.layers, maps.weights, strict=True):
        for head, w in zip(maps.heads, of_layer, strict=True):
            a, i, j = _asked(w[: maps.real, : maps.real])
            # a query with few keys to choose from looks hard at each: count in units of an even look
            even = a * (a > 0).sum(dim=1, keepdim=True) * (i != j)
            query, key = divmod(int(even.argmax()), maps.real)
            tokens = f"{maps.tokens[int(i[query])]!r} → {maps.tokens[key]!r}"
            strongest = f"{tokens} {a[query, key]:.2f}" if even.any() else "–"
            rows.append({"layer": layer, "head": head, **numbers(w[: maps.real, : maps.real]), "strongest": strongest})
    return rows


def numbers(w: np.ndarray) -> dict[str, float]:
    """Of one head's weights on a text (T, T), as in `evolution`, the mean over queries with a choice: entropy in nats,
    distance in tokens, weight on the token itself, the one before (of those that have one) and the first."""
    a, i, j = _asked(w)
    choice = (a > 0).sum(dim=1) > 1
    choice = choice if choice.any() else torch.ones_like(choice)
    a, i = a[choice], i[choice]
    before = a[i - j == 1]
    return {
        "entropy": float(torch.special.entr(a).sum(dim=1).mean().clamp(min=0)),
        "distance": float((a * (i - j).abs()).sum(dim=1).mean()),
        "self": float(a[i == j].mean()),
        "previous": float(before.mean()) if len(before) else math.nan,
        "first": float(a[:, 0].mean()),
    }


def _asked(w: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of the queries i (Q, 1) on the keys j (1, T): of a long text some queries, evenly spread."""
    asked = np.unique(np.linspace(0, len(w) - 1, min(len(w), QUERIES)).round().astype(int))
    a = torch.from_numpy(np.ascontiguousarray(w[asked], dtype=np.float32))
    return a, torch.from_numpy(asked)[:, None], torch.arange(len(w))[None, :]
