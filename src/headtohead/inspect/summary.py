"""A map in a few numbers a head. Numpy only."""

from __future__ import annotations

from typing import Any

import numpy as np

from headtohead.inspect.maps import Maps


def summary(maps: Maps) -> list[dict[str, Any]]:
    """Of each head: entropy in nats, distance in tokens, weight on the token itself, the one before and the first; and
    the strongest look of a token at another."""
    n = maps.real
    away = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
    rows = []
    for layer, of_layer in zip(maps.layers, maps.weights[:, :, :n, :n].astype(float), strict=True):
        for head, a in zip(maps.heads, of_layer, strict=True):
            logs = np.log(a, where=a > 0, out=np.zeros_like(a))
            other = a * (away > 0)
            # a query with few keys to choose from looks hard at each: count in units of an even look
            even = other * np.maximum((a > 0).sum(axis=1, keepdims=True), 1)
            i, j = np.unravel_index(int(even.argmax()), a.shape)
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "entropy": float(-(a * logs).sum(axis=1).mean()),
                    "distance": float((a * away).sum(axis=1).mean()),
                    "self": float(np.diag(a).mean()),
                    "previous": float(np.diag(a, -1).mean()) if n > 1 else 0.0,
                    "first": float(a[:, 0].mean()),
                    "strongest": f"{maps.tokens[i]!r} → {maps.tokens[j]!r} {a[i, j]:.2f}" if n > 1 else "–",
                }
            )
    return rows
