"""Student's t intervals of a mean."""

from __future__ import annotations

import math

import numpy as np
import scipy  # scipy.special is imported when first used; scipy.stats would take a second


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
