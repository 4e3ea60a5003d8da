"""Attention maps in a few numbers for each head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headtohead.interpret.maps import Maps

QUERIES = 256


def summary(maps: Maps) -> list[dict[str, Any]]:
    """Return for each head its measures and its strongest weight of one token on another."""
    rows = []
    for layer, of_layer in zip(maps.layers, maps.weights, strict=True):
        for head, w in zip(maps.heads, of_layer[:, : maps.real, : maps.real], strict=True):
            a, i, j = _sampled(w)
            # relative to equal weights, because a query with few keys gives each a large weight
            relative = a * (a > 0).sum(dim=1, keepdim=True) * (i != j)
            query, key = divmod(int(relative.argmax()), maps.real)
            tokens = f"{maps.tokens[int(i[query])]!r} → {maps.tokens[key]!r}"
            strongest = f"{tokens} {a[query, key]:.2f}" if relative.any() else "–"
            rows.append({"layer": layer, "head": head, **numbers(w), "strongest": strongest})
    return rows


def numbers(w: np.ndarray) -> dict[str, float]:
    """Return the measures of one head's weights (T, T), averaged over queries with a choice as in `evolution`:
    entropy in nats, distance in tokens, weight on the token itself, on the previous and on the first token. If weights
    do not sum to one, their shares are measured."""
    a, i, j = _sampled(w)
    choice = (a > 0).sum(dim=1) > 1
    choice = choice if choice.any() else torch.ones_like(choice)
    a, i = a[choice], i[choice]
    previous = a[i - j == 1]
    return {
        "entropy": float(torch.special.entr(a).sum(dim=1).mean().clamp(min=0)),
        "distance": float((a * (i - j).abs()).sum(dim=1).mean()),
        "self": float(a[i == j].mean()),
        "previous": float(previous.mean()) if len(previous) else math.nan,
        "first": float(a[:, 0].mean()),
    }


def shares(a: Tensor) -> Tensor:
    """Return weights (…, T) divided by their sum, or their sizes by the sum of sizes; unchanged if rows sum to one."""
    size = a.abs()
    total = size.sum(dim=-1, keepdim=True)
    if bool((((total - 1).abs() < 1e-3) | (total == 0)).all()) and not bool((a < 0).any()):
        return a
    return size / total.clamp(min=torch.finfo(a.dtype).tiny)


def _sampled(w: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights (Q, T), queries i (Q, 1) and keys j (1, T). A long text is sampled at QUERIES even steps."""
    queries = np.unique(np.linspace(0, len(w) - 1, min(len(w), QUERIES)).round().astype(int))
    a = torch.from_numpy(np.ascontiguousarray(w[queries], dtype=np.float32))
    return shares(a), torch.from_numpy(queries)[:, None], torch.arange(len(w))[None, :]
