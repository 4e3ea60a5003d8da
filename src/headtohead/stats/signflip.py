"""Sign patterns. Under the null hypothesis, swapping the two arms of a pair changes nothing, so each difference could
have the opposite sign.

Shapes: n pairs, k arms, F sign patterns.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

import numpy as np

EXACT_PAIRS = 14  # up to this number of pairs, the test uses every sign pattern
SAME = 1e-9  # relative; statistics that differ by less are ties


@lru_cache(maxsize=32)
def sign_patterns(n: int) -> np.ndarray:
    """Sign patterns (F, n) of ±1; the first pattern flips nothing.

    A pattern and its opposite give the same |t|, so the set contains only patterns that start with +1. For more than
    EXACT_PAIRS pairs it is a subgroup of all patterns: the first EXACT_PAIRS signs take every combination, and each
    later sign is the product of an odd number of them. A test over a subgroup is exact too.
    """
    free = min(n, EXACT_PAIRS)
    first = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=free - 1)])
    return np.column_stack([first, *(first[:, list(chosen)].prod(axis=1) for chosen in sign_products(n - free))])


@lru_cache(maxsize=1)
def _all_products() -> list[tuple[int, ...]]:
    """Which free signs each later sign is the product of: all odd numbers of signs above one, in a fixed random order.
    Odd, so that the opposite of a pattern belongs to the group."""
    sizes = range(3, EXACT_PAIRS + 1, 2)
    found = [chosen for size in sizes for chosen in itertools.combinations(range(EXACT_PAIRS), size)]
    np.random.default_rng(0).shuffle(found)
    return [tuple(map(int, chosen)) for chosen in found]


def sign_products(count: int) -> list[tuple[int, ...]]:
    """Of the first `count` signs after the free ones: which free signs each is the product of, counted from 0."""
    known = _all_products() if count > 0 else []
    return [known[number % len(known)] for number in range(count)]


def t_squared(differences: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Student's t squared (F, k) of the differences (n, k) for each sign pattern; nan values are left out. Flipping
    signs changes the sum, not the sum of squares."""
    present = np.isfinite(differences)
    d = np.where(present, differences, 0.0)
    scale = np.abs(d).max(axis=0, initial=0.0)
    d = d / np.where(scale > 0, scale, 1.0)  # avoid underflow when tiny differences are squared
    count, squares = present.sum(axis=0), (d**2).sum(axis=0)
    share = (patterns @ d) ** 2 / np.where(squares > 0, count * squares, 1.0)  # 0 … 1; 1 if all differences are equal
    return t_squared_of(share, count)


def t_squared_of(share: np.ndarray, count: np.ndarray | int) -> np.ndarray:
    """t squared from (Σd)² / (n Σd²), which lies between 0 and 1."""
    share = np.where(share < 1e-18, 0.0, share)  # only rounding errors
    rest = np.clip(1 - share, 0.0, None)
    rest = np.where(rest < 1e-12, 0.0, rest)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(count) > 1, (count - 1) * share / rest, 0.0)


def alone(d: np.ndarray) -> float:
    """The two-sided p-value of one arm's differences, without any correction."""
    d = d[np.isfinite(d)]
    if not len(d):
        return 1.0
    t2 = t_squared(d[:, None], sign_patterns(len(d)))[:, 0]
    return float((t2 >= t2[0] * (1 - SAME)).mean())
