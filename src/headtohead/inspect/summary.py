"""A map in a few numbers a head."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headtohead.inspect.maps import Maps

QUERIES = 256


def summary(maps: Maps) -> list[dict[str, Any]]:
    """Of each head: entropy in nats, distance in tokens, weight on the token itself, the one before and the first; and
    the strongest look of a token at another."""
    n = maps.real
    asked = np.unique(np.linspace(0, n - 1, min(n, QUERIES)).round().astype(int))  # of a long text some, evenly spread
    i, j = torch.from_numpy(asked)[:, None], torch.arange(n)[None, :]
    away = (i - j).abs().float()
    rows = []
    for layer, of_layer in zip(maps.layers, maps.weights, strict=True):
        for head, whole in zip(maps.heads, of_layer, strict=True):
            a = torch.from_numpy(np.ascontiguousarray(whole[asked, :n], dtype=np.float32))
            choice = (a > 0).sum(dim=1) > 1  # as in `evolution`: a query with one key has none
            choice = choice if choice.any() else torch.ones_like(choice)
            # a query with few keys to choose from looks hard at each: count in units of an even look
            even = a * (a > 0).sum(dim=1, keepdim=True) * (away > 0)
            query, key = divmod(int(even.argmax()), n)
            rows.append(
                {
                    "layer": layer,
                    "head": head,
                    "entropy": max(0.0, float(torch.special.entr(a)[choice].sum(dim=1).mean())),
                    "distance": float((a * away)[choice].sum(dim=1).mean()),
                    "self": float((a * (away == 0))[choice].sum(dim=1).mean()),
                    "previous": float(a[(i - j == 1) & choice[:, None]].mean()) if n > 1 else 0.0,
                    "first": float(a[choice, 0].mean()),
                    "strongest": f"{maps.tokens[asked[query]]!r} → {maps.tokens[key]!r} {a[query, key]:.2f}"
                    if even.any()
                    else "–",
                }
            )
    return rows
