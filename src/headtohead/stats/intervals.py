"""Student's t intervals of a mean, and intervals from any test of a difference."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy  # scipy.special is imported when first used; scipy.stats would take a second

STEPS = 40  # of a bisection
FARTHEST = 1e6  # where the search for the end of an interval gives up, in standard errors


def interval(d: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Student's t interval of the mean of d."""
    n = len(d)
    if n < 2:
        return -math.inf, math.inf
    half = float(t_quantile((1 + level) / 2, n) * d.std(ddof=1) / math.sqrt(n))
    return float(d.mean()) - half, float(d.mean()) + half


def t_quantile(share: float, n: int) -> float:
    """The quantile `share` of Student's t with n − 1 degrees of freedom."""
    return float(scipy.special.stdtrit(n - 1, share))


def not_excluded(excluded: Callable[[float], bool], mean: float, error: float) -> tuple[float, float]:
    """The differences around the mean that a test does not exclude, to 1e-4 of their distance from the mean.

    The interval holds zero if and only if the test does not exclude zero, so a verdict, its p and its interval agree.
    """
    zero = excluded(0.0)
    below = _farthest(lambda size: excluded(mean - size * error), mean / error, zero)
    above = _farthest(lambda size: excluded(mean + size * error), -mean / error, zero)
    return mean - below * error, mean + above * error


def _farthest(excluded: Callable[[float], bool], zero: float, zero_is_excluded: bool) -> float:
    """The distance up to which nothing is excluded, in standard errors; inf if nothing ever is. `zero` is the distance
    of the difference zero on this side of the mean, negative if it lies on the other."""
    most = zero if zero > 0 and zero_is_excluded else math.inf
    low = zero if zero > 0 and not zero_is_excluded else 0.0
    high = min(max(2.0, 2 * low), most)
    while high < most and not excluded(high):
        low, high = high, min(2 * high, most)
        if high > FARTHEST * max(1.0, zero):
            return math.inf
    for _ in range(STEPS):
        if high - low < 1e-4 * high:
            break
        middle = (low + high) / 2
        low, high = (low, middle) if excluded(middle) else (middle, high)
    return low if high == most else high
