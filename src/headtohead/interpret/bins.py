"""Bins for maps of long texts. The weights of the keys in a bin are added and its queries are averaged, so every row
still sums to one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def bin_edges(length: int, bins: int) -> np.ndarray:
    """Return the edges (n + 1,) of the bins. All bins but the last have the same width; a wider one would look like a
    stripe, because weights are added."""
    width = max(1, -(-length // max(1, bins)))
    return np.append(np.arange(0, length, width), length)


def text_edges(real: int, length: int, bins: int) -> np.ndarray:
    """Return the edges for a text with padding behind it. Each padding token is its own bin."""
    return np.append(bin_edges(real, bins), np.arange(real + 1, length + 1))


def sizes(weights: np.ndarray) -> np.ndarray:
    """Return weights without signs, which those that were mixed across heads can have."""
    return weights if weights.size == 0 or weights.min() >= 0 else np.abs(weights)


def binned(weights: np.ndarray, edges: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
    """Return the sizes of weights (…, T, T) in bins (…, n, n). `keys` are the edges of the keys if those of the queries
    differ."""
    weights = sizes(weights)
    keys = edges if keys is None else keys
    if (len(edges), len(keys)) == (weights.shape[-2] + 1, weights.shape[-1] + 1):
        return weights
    queries = np.add.reduceat(weights, edges[:-1], axis=-2)  # rows first, because they are contiguous
    return np.add.reduceat(queries, keys[:-1], axis=-1) / np.diff(edges)[:, None].astype(weights.dtype)


def bin_labels(tokens: Sequence[str], edges: np.ndarray) -> list[str]:
    """Return the token of each bin; for several tokens, the position and the first one."""
    if len(edges) == len(tokens) + 1:
        return list(tokens)
    return [f"{first}: {tokens[first]}" for first in edges[:-1]]
