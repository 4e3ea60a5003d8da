"""Thousands of simulated comparisons of unrelated runs: how often verdicts are false, and how often intervals cover."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats as distributions

from headtohead.stats import ALPHA
from headtohead.stats.unpaired import STRICTER, UnpairedVerdict, compare_unpaired, welch_limits, welch_p

NOISES = {
    "normal": lambda make, shape: make.normal(size=shape),
    "Student's t, 3 degrees": lambda make, shape: make.standard_t(3, size=shape) / math.sqrt(3),
    "exponential": lambda make, shape: make.exponential(size=shape) - 1,
}


def draws(kind: str, runs: tuple[int, ...], sds: tuple[float, ...], studies: int) -> list[list[np.ndarray]]:
    """Values with mean 0 of the control and of each arm, for each study."""
    make = np.random.default_rng([*runs, int(10 * sum(sds)), list(NOISES).index(kind)])
    columns = [sd * NOISES[kind](make, (studies, n)) for n, sd in zip(runs, sds, strict=True)]
    return [list(study) for study in zip(*columns, strict=True)]


def verdicts(study: list[np.ndarray], effect: float = 0.0) -> list[UnpairedVerdict]:
    control, *arms = study
    return list(compare_unpaired(control, {str(k): arm + effect for k, arm in enumerate(arms)}).values())


def may_be_real(study: list[np.ndarray], effect: float = 0.0) -> bool:
    """Whether the interval of any arm excludes zero: the permutation test, which takes longer, can only object."""
    control, *arms = study
    return any(welch_p(control, arm + effect) <= STRICTER * ALPHA / len(arms) for arm in arms)


def false_share(studies: list[list[np.ndarray]], effect: float = 0.0) -> float:
    """The share of studies with any better or worse."""
    found = [may_be_real(s, effect) and any(v.is_real for v in verdicts(s, effect)) for s in studies]
    return float(np.mean(found))


def covered_share(studies: list[list[np.ndarray]]) -> float:
    """The share whose intervals all contain the true difference, 0. The permutation test can widen them."""
    found = []
    for control, *arms in studies:
        limits = [welch_limits(control, arm, STRICTER * ALPHA / len(arms)) for arm in arms]
        found.append(all(low <= 0 <= high for low, high in limits))
    return float(np.mean(found))


def welch_share(studies: list[list[np.ndarray]], effect: float = 0.0) -> float:
    """The share of studies of one arm that a plain Welch test calls different."""
    p = [distributions.ttest_ind(arm + effect, control, equal_var=False).pvalue for control, arm in studies]
    return float((np.array(p) <= 0.05).mean())
