"""Attention maps of random weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from headtohead.interpret.checks import Check
from headtohead.interpret.maps import Maps

WORDS = ["the", "people", "of", "America", "will", "not", "rest", "until", "freedom", "rings"]


def random_maps(
    layers: int = 2, heads: int = 2, real: int = 5, padding: int = 0, causal: bool = False, seed: int = 0, **more: Any
) -> Maps:
    """Rows of any weights that sum to one, none on padding."""
    n = real + padding
    w = np.random.default_rng(seed).exponential(size=(layers, heads, n, n)).astype(np.float32) ** 2
    w[..., real:] = 0
    if causal:
        w = np.tril(w)
    said: dict[str, Any] = {
        "weights": w / w.sum(-1, keepdims=True),
        "tokens": tuple(WORDS[k % len(WORDS)] for k in range(real)) + ("<pad>",) * padding,
        "real": real,
        "cut": 0,
        "unknown": 0,
        "name": "run 0badcafe: lm on speeches, seed 3",
        "step": 500,
        "task": "lm",
        "answers": (("rest", 0.5), ("sleep", 0.25)),
        "checks": (Check("rows", "proved", "every row sums to one"),),
        "layers": tuple(range(layers)),
        "heads": tuple(range(heads)),
    }
    return Maps(**(said | more))
