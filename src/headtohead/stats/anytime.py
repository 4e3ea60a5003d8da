"""A test that may be made after every pair, however often and whenever somebody looks: an e-process.

It bets on the sign of each difference before seeing it. Under the null hypothesis each sign is a fair coin, so no way
of betting gains on average, and the chance that the capital ever grows to 1/α is at most α (Ville's inequality). The
size of a difference does not depend on its sign, so a bet may use it:

    capital = mean over κ, ± of  Π_s  2 · sigmoid(± 2κ d_s / r_s),      r_s = root mean square of d_1 … d_s
"""

from __future__ import annotations

import math

import numpy as np

from headtohead.stats.intervals import not_excluded

KAPPAS = (0.5, 1.5, 4.5)  # best for effects of about 0.45, 1.1 and 2 standard deviations of the differences


def reserve_parts(planned: int, later: int) -> list[int]:
    """The numbers by which the reserved error is divided for each arm, the planned arms first. Planned arms share one
    half of it. The j-th arm that is added later gets 1 / (j (j + 1)) of the other half, so any number may be added."""
    return [2 * planned] * planned + [2 * j * (j + 1) for j in range(1, later + 1)]


def capital(d: np.ndarray) -> float:
    """The largest logarithm of the capital after any pair; nan values are left out."""
    d = d[np.isfinite(d)]
    if not len(d):
        return 0.0
    scale = np.abs(d).max()
    if not scale > 0:
        return 0.0
    d = d / scale
    roots = np.sqrt(np.cumsum(d**2) / np.arange(1, len(d) + 1))
    z = np.divide(d, roots, out=np.zeros_like(d), where=roots > 0)
    bets = np.array([side * kappa for side in (-1, 1) for kappa in KAPPAS])
    logs = math.log(2) - np.logaddexp(0, -2 * bets[:, None] * z)  # (bets, n)
    paths = np.logaddexp.reduce(np.cumsum(logs, axis=1), axis=0) - math.log(len(bets))
    return max(0.0, float(paths.max()))


def anytime_p(d: np.ndarray, parts: int = 1) -> float:
    """A p-value that holds after any number of analyses, for the error divided by `parts`."""
    return min(1.0, parts * math.exp(-capital(d)))


def anytime_interval(d: np.ndarray, error: float, parts: int = 1) -> tuple[float, float]:
    """The differences that the test never excluded, for the error divided by `parts`."""
    kept = d[np.isfinite(d)]
    if len(kept) < 2 or not error > 0:
        return -math.inf, math.inf
    needed = math.log(parts / error)
    mean, unit = float(kept.mean()), float(kept.std(ddof=1)) / math.sqrt(len(kept))
    if not unit > 0:
        return (mean, mean) if capital(np.ones(len(kept))) >= needed else (-math.inf, math.inf)
    return not_excluded(lambda shift: capital(kept - shift) >= needed, mean, unit)
