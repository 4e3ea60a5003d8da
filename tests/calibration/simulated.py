"""Thousands of simulated studies: how often the rule errs, how often it sees what is there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats as distributions

from headtohead.stats import interval, sign_patterns

STUDIES = 2000
PAIRS, PAIRS_OF_EIGHT = (6, 10, 20), (6, 10)
SIZES = (3, 4, 6)  # of true effects, in standard deviations of the differences


def called_real(d: np.ndarray) -> np.ndarray:
    """(S, k) whether each arm of (S, n, k) differences is called better or worse: `compare_all` of many at once."""
    S, n, k = d.shape
    patterns, limit = sign_patterns(n), distributions.t.ppf(0.975, n - 1)
    unit = (d / np.sqrt(n * (d**2).sum(axis=1, keepdims=True))).transpose(2, 0, 1)  # its |sum| is 1 where all agree
    share = np.abs(unit.sum(axis=2))
    order = np.argsort(-share, axis=0)
    unit, sorted_share = np.take_along_axis(unit, order[:, :, None], axis=0), np.take_along_axis(share, order, axis=0)
    p = np.empty((k, S))
    for part in np.array_split(np.arange(S), max(1, S * len(patterns) * k // 2_000_000)):
        largest = np.zeros((len(part), len(patterns)))
        for arm in reversed(range(k)):
            np.maximum(largest, np.abs(unit[arm, part] @ patterns.T), out=largest)
            p[arm, part] = (largest >= sorted_share[arm, part, None] * (1 - 1e-9)).mean(axis=1)
    p = np.maximum.accumulate(p, axis=0)
    real = (p <= 0.05) & (sorted_share**2 * (n - 1) > limit**2 * (1 - sorted_share**2))
    found = np.empty_like(real)
    np.put_along_axis(found, order, real, axis=0)
    return found.T


NOISES = {
    "normal": lambda make, shape: make.normal(size=shape),
    "exponential": lambda make, shape: make.exponential(size=shape),
    "log-normal (σ 1.5)": lambda make, shape: make.lognormal(sigma=1.5, size=shape),
    "Student's t, 3 degrees": lambda make, shape: make.standard_t(3, size=shape),
}


def nulls(kind: str, studies: int, n: int, arms: int) -> np.ndarray:
    """(studies, n, arms + 1) values of arms that differ in nothing; each seed moves all of them."""
    make = np.random.default_rng([n, arms, list(NOISES).index(kind)])
    seed = make.exponential(3, size=(studies, n, 1))
    return seed + NOISES[kind](make, (studies, n, arms + 1))


def called_equivalent(d: np.ndarray, margin: float) -> np.ndarray:
    n = d.shape[1]
    half = distributions.t.ppf(0.95, n - 1) * d.std(axis=1, ddof=1) / math.sqrt(n)
    return np.abs(d.mean(axis=1)) + half < margin


def false_verdicts(kind: str, n: int, arms: int) -> np.ndarray:
    """(STUDIES,) whether any of some arms that differ in nothing is called better or worse."""
    values = nulls(kind, STUDIES, n, arms)
    return called_real(values[:, :, 1:] - values[:, :, :1]).any(axis=1)


# what one arm may do to the differences themselves: usually a little better, now and then much worse, zero on average
SKEWED = {
    "exponential": lambda make, shape: make.exponential(size=shape) - 1,
    "log-normal (σ 1.5)": lambda make, shape: make.lognormal(sigma=1.5, size=shape) - math.exp(1.5**2 / 2),
}


def false_verdicts_of_skewed(kind: str, n: int) -> np.ndarray:
    make = np.random.default_rng([n, list(SKEWED).index(kind), 5])
    return called_real(SKEWED[kind](make, (STUDIES, n, 1)))[:, 0]


def four_of_eight(size: float) -> tuple[float, float]:
    """Six pairs, eight arms, four of them with a true effect: how often all four are found, and how often one
    of the others is called real."""
    values = np.random.default_rng(8).normal(size=(1000, 6, 9)) / math.sqrt(2)  # differences have an sd of one
    values[:, :, 1:5] += size
    found = called_real(values[:, :, 1:] - values[:, :, :1])
    return float(found[:, :4].all(axis=1).mean()), float(found[:, 4:].any(axis=1).mean())


def coverage(n: int) -> float:
    d = np.random.default_rng(n).normal(0.7, 2.0, size=(6000, n))
    return float(np.mean([low < 0.7 < high for low, high in map(interval, d)]))


def equivalent_at_the_margin(n: int, margin: float) -> np.ndarray:
    return called_equivalent(np.random.default_rng(n).normal(margin, 1.0, size=(20_000, n)), margin)


def table() -> dict[str, Any]:
    """All of it, in percent, as the docs show it."""
    percent = "{:.1f}".format
    rows = [
        [f"false verdicts, {kind} noise"]
        + [percent(100 * false_verdicts(kind, n, 1).mean()) for n in PAIRS]
        + [percent(100 * false_verdicts(kind, n, 8).mean()) for n in PAIRS_OF_EIGHT]
        for kind in NOISES
    ]
    rows += [
        [f"false verdicts, differences themselves skewed, {kind}"]
        + [percent(100 * false_verdicts_of_skewed(kind, n).mean()) for n in PAIRS]
        + ["", ""]
        for kind in SKEWED
    ]
    rows.append(["the 95 % interval covers the truth", *(percent(100 * coverage(n)) for n in PAIRS), "", ""])
    at_most = [percent(100 * max(equivalent_at_the_margin(n, m).mean() for m in (0.5, 1.0, 3.0))) for n in PAIRS]
    rows.append(["*equivalent* where the difference is exactly the margin", *at_most, "", ""])
    for size in SIZES:
        found, wrong = four_of_eight(size)
        said = f"{percent(100 * found)} (a false one: {percent(100 * wrong)})"
        rows.append([f"all four effects of {size} standard deviations found among eight arms", "", "", "", said, ""])
    head = ["percent of simulated studies", *(f"{n} pairs" for n in PAIRS), *(f"8 arms, {n}" for n in PAIRS_OF_EIGHT)]
    return {"columns": head, "rows": rows}
