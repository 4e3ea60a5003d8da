"""How many pairs detect an effect, and how small an effect a number of pairs detects."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy

from headtohead.errors import InputError
from headtohead.stats.design import ALPHA, LEAST_PAIRS
from headtohead.stats.intervals import t_quantile
from headtohead.stats.signflip import SAME, sign_patterns

MOST_PAIRS = 10_000


def power(effect: float, pairs: int, arms: int = 1, correlation: float = 0.5, alpha: float = ALPHA) -> float:
    """The probability that an effect gets the verdict better or worse in one analysis. The effect is in standard
    deviations of the differences.

    Assumes normal noise and no effect in the other arms. Differences of arms that share a control have a correlation of
    about 0.5.
    """
    if arms < 1:
        raise InputError(f"arms must be at least 1, not {arms}")
    if pairs < LEAST_PAIRS:
        return 0.0
    effect = min(abs(effect), 1e6)
    if pairs <= 11:  # few distinct p-values: simulate the rule; above, Student's t is accurate to 1 point
        studies = _noise(pairs, arms, correlation) + _in_first_arm(effect, arms)
        return float(np.mean(_p_of_first(studies) <= alpha))
    shift, limit = effect * math.sqrt(pairs), _limit(pairs, arms, correlation, alpha) * _sds(pairs)
    return float(np.mean(scipy.special.ndtr(shift - limit) + scipy.special.ndtr(-shift - limit)))


@lru_cache(maxsize=256)
def _sds(pairs: int) -> np.ndarray:
    """500 quantiles of the standard deviation of `pairs` normal values."""
    return np.sqrt(2 * scipy.special.gammaincinv((pairs - 1) / 2, (np.arange(500) + 0.5) / 500) / (pairs - 1))


def _in_first_arm(effect: float, arms: int) -> np.ndarray:
    return np.array([effect] + [0.0] * (arms - 1))


@lru_cache(maxsize=32)
def _noise(pairs: int, arms: int, correlation: float) -> np.ndarray:
    """Correlated normal noise (draws, n, k), the same at each call."""
    draws = 10_000 if arms == 1 else max(500, 12_000 // arms)
    rng = np.random.default_rng([pairs, arms])
    shared, own = rng.standard_normal((draws, pairs, 1)), rng.standard_normal((draws, pairs, arms))
    return math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own


def _p_of_first(d: np.ndarray) -> np.ndarray:
    """The corrected p of the first arm of d (draws, n, k), for many simulated studies (draws,)."""
    draws, n, k = d.shape
    squares = (d**2).sum(axis=1)  # (draws, k)
    share = d.sum(axis=1) ** 2 / (n * squares)
    p = np.zeros(draws)
    patterns = sign_patterns(n)
    for part in np.array_split(np.arange(draws), max(1, draws * len(patterns) * k // 4_000_000)):
        flipped = np.einsum("fn,snk->sfk", patterns, d[part], optimize=True) ** 2 / (n * squares[part, None])
        p[part] = (flipped.max(axis=2) >= share[part, :1] * (1 - SAME)).mean(axis=1)
    return p


@lru_cache(maxsize=256)
def _limit(pairs: int, arms: int, correlation: float, alpha: float) -> float:
    """The 1 − alpha quantile of the largest |t| among k arms without effect."""
    if arms == 1 or arms > 8 or pairs > 40:
        return t_quantile(float(scipy.special.ndtr(_normal_limit(arms, correlation, alpha))), pairs)
    rng = np.random.default_rng([pairs, arms])
    shared, own = rng.standard_normal((20_000, pairs, 1)), rng.standard_normal((20_000, pairs, arms))
    d = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
    t = np.abs(d.mean(axis=1)) / d.std(axis=1, ddof=1) * math.sqrt(pairs)
    return float(np.quantile(t.max(axis=1), 1 - alpha))


@lru_cache(maxsize=64)
def _normal_limit(arms: int, correlation: float, alpha: float) -> float:
    """The limit of `_limit` for infinitely many pairs."""
    if arms == 1:
        return float(scipy.special.ndtri(1 - alpha / 2))
    rng = np.random.default_rng(arms)
    shared, own = rng.standard_normal((100_000, 1)), rng.standard_normal((100_000, arms))
    z = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
    return float(np.quantile(np.abs(z).max(axis=1), 1 - alpha))


@lru_cache(maxsize=256)
def detectable(pairs: int, arms: int = 1, chance: float = 0.8, alpha: float = ALPHA) -> float:
    """The smallest effect, in standard deviations of the differences, that is detected with probability `chance`."""
    if pairs < LEAST_PAIRS:
        return math.inf
    low, high = 0.0, 1.0
    while power(high, pairs, arms, alpha=alpha) < chance:
        low, high = high, 2 * high
        if high > 1e3:
            return math.inf
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, pairs, arms, alpha=alpha) >= chance else (middle, high)
    return high


@lru_cache(maxsize=256)
def pairs_for(effect: float, arms: int = 1, chance: float = 0.8, alpha: float = ALPHA) -> int | None:
    """The number of pairs that detect an effect, in standard deviations of the differences; None: above MOST_PAIRS."""
    if not effect > 0:
        return None
    return _fewest(lambda n: power(effect, n, arms, alpha=alpha) >= chance)


def pairs_for_equivalence(margin: float, arms: int = 1, chance: float = 0.8, alpha: float = ALPHA) -> int | None:
    """The number of pairs that find two equal arms equivalent. `margin` is in standard deviations."""
    if not margin > 0:
        return None

    def is_enough(n: int) -> bool:
        # two one-sided tests: each may err with probability alpha; what is left for the mean, in standard errors
        room = margin * math.sqrt(n) - _limit(n, arms, 0.5, 2 * alpha) * _sds(n)
        return bool(np.clip(2 * scipy.special.ndtr(room) - 1, 0, None).mean() >= chance)

    return _fewest(is_enough)


def _fewest(is_enough: Callable[[int], bool]) -> int | None:
    """The number of pairs from which on there are enough; None: above MOST_PAIRS."""
    low, high = LEAST_PAIRS - 1, LEAST_PAIRS
    while not is_enough(high):
        if high == MOST_PAIRS:
            return None
        low, high = high, min(2 * high, MOST_PAIRS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
