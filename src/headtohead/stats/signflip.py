"""The sign-flip test. Under the null hypothesis, swapping the two arms of a pair changes nothing, so each difference
could have the opposite sign.

Shapes: n pairs, k arms, F sign patterns.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np

EXACT_PAIRS = 16  # up to this number of pairs, the test uses every sign pattern
DRAWS = 20_000  # above it, this number of random patterns, the same ones each time


def sign_flip(differences: np.ndarray) -> np.ndarray:
    """Two-sided p-values (k,) of the differences (n, k), corrected for k arms; nan values are left out.

    The correction is the step-down procedure of Westfall and Young (1993) over the largest |t| of the arms, with whole
    pairs flipped for all arms at once.
    """
    n, k = differences.shape
    if n == 0:
        return np.ones(k)
    t2 = _t_squared(differences, sign_patterns(n))  # (F, k); the first pattern flips nothing
    order = np.argsort(-t2[0], kind="stable")
    t2 = t2[:, order]
    # step-down: compare an arm with the largest |t| among itself and the arms with smaller |t|
    largest = np.maximum.accumulate(t2[:, ::-1], axis=1)[:, ::-1]
    p = (largest >= t2[0] * (1 - 1e-9)).mean(axis=0)  # tolerate rounding errors in ties
    corrected = np.empty(k)
    corrected[order] = np.maximum.accumulate(p)
    return corrected


def _t_squared(differences: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Student's t squared (F, k) for each sign pattern. Flipping signs changes the sum, not the sum of squares."""
    present = np.isfinite(differences)
    d = np.where(present, differences, 0.0)
    scale = np.abs(d).max(axis=0)
    d = d / np.where(scale > 0, scale, 1.0)  # avoid underflow when tiny differences are squared
    count, squares = present.sum(axis=0), (d**2).sum(axis=0)
    share = (patterns @ d) ** 2 / np.where(squares > 0, count * squares, 1.0)  # 0 … 1; 1 if all differences are equal
    share[share < 1e-18] = 0.0  # only rounding errors
    rest = np.clip(1 - share, 0.0, None)
    rest[rest < 1e-12] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(count > 1, (count - 1) * share / rest, 0.0)


@lru_cache(maxsize=32)
def sign_patterns(n: int) -> np.ndarray:
    """Sign patterns (F, n) of ±1; the first pattern flips nothing.

    A pattern and its opposite give the same |t|, so the exact set contains only patterns that start with +1.
    """
    if n <= EXACT_PAIRS:
        return np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])
    drawn = np.random.default_rng(n).choice([1.0, -1.0], size=(min(DRAWS, 20_000_000 // n), n))
    drawn[0] = 1.0
    return drawn
