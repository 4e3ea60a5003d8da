"""Groups test items into clusters that do not share tokens, so that an interval can treat clusters as independent.

Neighbouring windows of a text have similar losses: they overlap, and they are about the same subject. The windows of a
long stretch of text are therefore one cluster. Stretches are long because subjects change slowly: between two trained
models the differences of 32-token windows were still correlated at a distance of 250 tokens.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

LEAST_BLOCKS = 8  # length of a stretch, in windows: shorter stretches depend on each other
MOST_STRETCHES = 12  # of all texts together: more would be shorter, and save 11 % of an interval's width at most
MOST_DOCUMENTS = 36  # of a text: neighbours are merged
MOST_GROUPS = 60  # of labelled texts
OUTSIDE = -1  # the cluster of a window that reaches into the next stretch


def stretches(starts: ArrayLike, tokens: ArrayLike) -> np.ndarray:
    """Return the cluster of each window: the stretch of text that contains it, or OUTSIDE if it reaches into the next.

    Windows of different stretches share no token. `tokens` are the counted tokens of each window; the first window
    counts all of its tokens, so the largest is the block size.
    """
    begin, block = np.asarray(starts, dtype=np.int64), max(1, int(np.max(tokens)))
    if len(begin) == 0:
        return np.zeros(0, dtype=np.int64)
    first = begin.min()
    blocks = (int(begin.max() - first) + block) // block
    count = min(MOST_STRETCHES, max(1, blocks // LEAST_BLOCKS))
    edges = first + np.arange(1, count) * blocks // count * block  # a multiple of the block: none reaches over if tiled
    of_first, of_last = (np.searchsorted(edges, at, side="right") for at in (begin, begin + block - 1))
    return np.where(of_first == of_last, of_first, OUTSIDE)


def merged(clusters: np.ndarray, most: int) -> np.ndarray:
    """Return the clusters with neighbours merged, so that at most `most` are left."""
    count = int(clusters.max(initial=OUTSIDE)) + 1
    if count <= max(1, most):
        return clusters
    return np.where(clusters == OUTSIDE, OUTSIDE, clusters * max(1, most) // count)


def groups(texts: int) -> np.ndarray:
    """Return the cluster of each labelled text: up to MOST_GROUPS groups of equal size, drawn at random.

    The draw is the same for the same number of texts. Groups of neighbours would consist of one class in a file that is
    sorted by class.
    """
    return np.random.default_rng(texts).permutation(texts) % MOST_GROUPS
