"""Long texts in fewer rows and columns. Keys that share a bin add up and queries that share one are averaged, so a row
still sums to one: it says how the bin's queries, on average, spread their weight over the bins of keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def bin_edges(length: int, bins: int) -> np.ndarray:
    """(n + 1,) where bins begin and the last one ends. All but the last are of one width: keys add up, and a wider bin
    among narrow ones would look like a stripe."""
    width = max(1, -(-length // max(1, bins)))
    return np.append(np.arange(0, length, width), length)


def text_edges(real: int, length: int, bins: int) -> np.ndarray:
    """Of a text with padding behind it, whose tokens are never binned with the text's."""
    return np.append(bin_edges(real, bins), np.arange(real + 1, length + 1))


def binned(weights: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """(…, T, T) → (…, n, n)."""
    if len(edges) == weights.shape[-1] + 1:
        return weights
    queries = np.add.reduceat(weights, edges[:-1], axis=-2)  # whole rows first: they lie together
    return np.add.reduceat(queries, edges[:-1], axis=-1) / np.diff(edges)[:, None].astype(weights.dtype)


def bin_labels(tokens: Sequence[str], edges: np.ndarray) -> list[str]:
    """A token's own text; of several the first one and its place."""
    if len(edges) == len(tokens) + 1:
        return list(tokens)
    return [f"{first}: {tokens[first]}" for first in edges[:-1]]
