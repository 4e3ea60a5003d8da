"""Planned analyses of a study: at each of them every open arm is tested, and decided arms leave.

One test covers all arms and all analyses. It flips the signs of whole pairs and asks, for each sign pattern, how large
t would have become in any open arm at any analysis so far. An analysis may reject only as many patterns as its share of
the error allows, counted together with the patterns that earlier analyses rejected. An interval holds every difference
that this test does not exclude, so a verdict and its interval always agree.

    d_s = variant(s) − control(s)      t_k² of pattern g = t² of g·d over the first n_k pairs
    reject at analysis k: t_k² of the data ≥ c_k, where
    share of patterns with t_j² ≥ c_j in any open arm at any j ≤ k   ≤   spent_k

Shapes: n pairs, k arms, F sign patterns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
import scipy

from headtohead.stats.design import LEAST_PAIRS, Design
from headtohead.stats.intervals import STEPS, not_excluded
from headtohead.stats.signflip import SAME, sign_patterns, t_squared, t_squared_of

State = Literal["differs", "equivalent", "open"]
T_STUDIES = 40_000  # simulated studies for the limits of the rule "t"


@dataclass(frozen=True)
class Judged:
    """What the planned analyses say of one arm."""

    state: State
    analysis: int  # number of the analysis that decided it, or of the last one that was made; 0: none
    pairs: int  # of that analysis
    estimate: float  # median-unbiased: corrected for having stopped when the difference was large
    low: float  # simultaneous interval over all arms and analyses
    high: float
    inner_low: float  # the interval that decides equivalence: two one-sided tests
    inner_high: float
    p: float  # sequential, corrected for all arms; at most `design.planned` if the arm differs


NOT_JUDGED = Judged("open", 0, 0, math.nan, -math.inf, math.inf, -math.inf, math.inf, 1.0)


def judge(differences: np.ndarray, design: Design, margin: float | None = None) -> list[Judged]:
    """Replay the planned analyses on the differences (n, k), in the order of their pairs; nan is a missing pair.

    An arm that is decided at one analysis keeps that verdict: later pairs do not change it.
    """
    found = [NOT_JUDGED] * differences.shape[1]

    def judge_arm(test: _Test, arm: int, number: int) -> bool:
        found[arm] = _judged(test, arm, number, design.analyses[number - 1], margin)
        return found[arm].state != "open"

    _replay(differences, design, judge_arm)
    return found


def decided_at(differences: np.ndarray, design: Design) -> list[int]:
    """The number of the analysis at which each arm is found to differ, 0 if at none: `judge` without intervals."""
    found = [0] * differences.shape[1]

    def judge_arm(test: _Test, arm: int, number: int) -> bool:
        found[arm] = number if test.excludes(arm, 0.0, 1.0) else 0
        return bool(found[arm])

    _replay(differences, design, judge_arm)
    return found


def _replay(differences: np.ndarray, design: Design, judge_arm: Callable[[_Test, int, int], bool]) -> None:
    """Call `judge_arm` for every open arm at every planned analysis that has its pairs. An arm for which it returns
    True is decided and leaves."""
    n, k = differences.shape
    arms = list(range(k))  # open ones
    history: list[list[int]] = []  # the arms of each analysis so far
    for number, pairs in enumerate(design.analyses, start=1):
        if pairs > n:
            break
        tested = [a for a in arms if np.isfinite(differences[:pairs, a]).sum() >= LEAST_PAIRS]
        history.append(tested)
        if not tested:
            continue
        make: type[_Flips] | type[_StudentT] = _Flips if design.rule == "flips" else _StudentT
        test = make(differences[:pairs], design, history)
        decided = {a for a in tested if judge_arm(test, a, number)}
        arms = [a for a in arms if a not in decided]


class _Test(Protocol):
    """One analysis, with everything that was seen before it."""

    def excludes(self, arm: int, shift: float, factor: float) -> bool:
        """Whether this analysis excludes the difference `shift`, with `factor` times the spent error."""

    def interval(self, arm: int, factor: float) -> tuple[float, float]:
        """The differences that are not excluded."""

    def p(self, arm: int) -> float: ...

    def estimate(self, arm: int) -> float: ...


def _judged(test: _Test, arm: int, number: int, pairs: int, margin: float | None) -> Judged:
    low, high = test.interval(arm, 1.0)
    inner = test.interval(arm, 2.0)
    state: State = "differs" if low > 0 or high < 0 else "open"
    if margin is not None and -margin < inner[0] and inner[1] < margin:
        state = "equivalent"
    estimate = min(max(test.estimate(arm), low), high)
    return Judged(state, number, pairs, estimate, low, high, *inner, test.p(arm))


# -- flips -------------------------------------------------------------------------------------------------------------


def limits(paths: Sequence[np.ndarray], spent: Sequence[float]) -> tuple[list[float], list[np.ndarray]]:
    """The limits c_j of the statistics of each analysis (F,), so that the share of patterns that reach a limit at any
    analysis up to j is at most spent_j; and the patterns that are left before each analysis."""
    patterns = len(paths[0])
    alive = np.ones(patterns, dtype=bool)
    found, before = [], []
    for path, share in zip(paths, spent, strict=True):
        before.append(alive)
        room = math.floor(share * patterns * (1 + SAME)) - int(patterns - alive.sum())
        values = path[alive]
        if room <= 0:
            limit = math.inf
        elif len(values) <= room:
            limit = 0.0
        else:
            first_kept = np.partition(values, len(values) - room - 1)[len(values) - room - 1]
            limit = float(first_kept) * (1 + SAME)  # patterns that tie with it are kept too
        found.append(limit)
        alive = alive & ~(path > limit)
    return found, before


class _Flips:
    """The sign-flip test. While one arm is tested for a difference δ, the other arms are shifted to a mean of zero, so
    that their own effects do not hide it."""

    def __init__(self, differences: np.ndarray, design: Design, history: list[list[int]]) -> None:
        self.spent = design.spent[: len(history)]
        self.points = design.analyses[: len(history)]
        self.d, self.present = np.nan_to_num(differences), np.isfinite(differences).astype(float)
        self.patterns = sign_patterns(len(differences))
        self.history = history
        centred = self.d - self._means()
        rounding = np.abs(centred) < SAME * np.abs(self.d).max(axis=0, initial=0.0)
        centred[rounding] = 0.0  # an arm whose differences are all equal
        centred[self.present == 0] = math.nan
        self.centred = [
            t_squared(centred[:n][:, arms], self.patterns[:, :n]) for n, arms in zip(self.points, history, strict=True)
        ]  # (F, arms of that analysis)
        self.arm = -1

    def _means(self) -> np.ndarray:
        """The mean of each arm over the pairs of its last analysis. Pairs that came after its verdict do not count."""
        means = np.zeros(self.d.shape[1])
        for n, arms in zip(self.points, self.history, strict=True):
            for a in arms:
                means[a] = self.d[:n, a].sum() / max(1.0, self.present[:n, a].sum())
        return means

    def _choose(self, arm: int) -> None:
        """Compute what every test of this arm needs."""
        if arm == self.arm:
            return
        self.arm = arm
        self.rest = []
        for arms, t2 in zip(self.history, self.centred, strict=True):
            others = [column for column, a in enumerate(arms) if a != arm]
            self.rest.append(t2[:, others].max(axis=1) if others else np.zeros(len(self.patterns)))
        d, present = self.d[:, arm], self.present[:, arm]
        self.sums = [self.patterns[:, :n] @ d[:n] for n in self.points]
        self.counts = [self.patterns[:, :n] @ present[:n] for n in self.points]

    def _t_squared(self, analysis: int, shift: float) -> np.ndarray:
        n = self.points[analysis]
        present = self.present[:n, self.arm]
        d = (self.d[:n, self.arm] - shift) * present
        squares, count = float(d @ d), float(present.sum())
        if not squares > 0:
            return np.zeros(len(self.patterns))
        share = (self.sums[analysis] - shift * self.counts[analysis]) ** 2 / (count * squares)
        return t_squared_of(share, int(count))

    def _paths(self, shift: float) -> list[np.ndarray]:
        own = (self._t_squared(j, shift) for j in range(len(self.points)))
        return [np.maximum(t2, rest) for t2, rest in zip(own, self.rest, strict=True)]

    def excludes(self, arm: int, shift: float, factor: float) -> bool:
        self._choose(arm)
        c, _ = limits(self._paths(shift), [factor * share for share in self.spent])
        return bool(self._t_squared(len(c) - 1, shift)[0] > c[-1])

    def interval(self, arm: int, factor: float) -> tuple[float, float]:
        kept = self.d[self.present[:, arm] > 0, arm]
        mean, error = float(kept.mean()), float(kept.std(ddof=1)) / math.sqrt(len(kept))
        if not error > 0:
            return (mean, mean) if mean else (0.0, 0.0)
        return not_excluded(lambda shift: self.excludes(arm, shift, factor), mean, error)

    def p(self, arm: int) -> float:
        self._choose(arm)
        paths = self._paths(0.0)
        c, before = limits(paths, self.spent)
        observed = self._t_squared(len(c) - 1, 0.0)[0]
        alive = before[-1]
        beyond = (paths[-1][alive] >= observed * (1 - SAME)).sum() + (~alive).sum()
        return float(beyond / len(alive))

    def estimate(self, arm: int) -> float:
        """The difference for which half of all patterns would have stopped earlier with a larger mean, or now with one
        at least as large."""
        kept = self.d[self.present[:, arm] > 0, arm]
        mean = float(kept.mean())
        if len(self.points) == 1:
            return mean
        self._choose(arm)
        c, _ = limits(self._paths(0.0), self.spent)
        error = float(kept.std(ddof=1)) / math.sqrt(len(kept))

        def share_above(shift: float) -> float:
            above, alive = np.zeros(2 * len(self.patterns)), np.ones(2 * len(self.patterns), dtype=bool)
            for j, n in enumerate(self.points):
                flipped = self.sums[j] - shift * self.counts[j]
                count = float(self.present[:n, self.arm].sum())
                sums = np.concatenate([flipped, -flipped]) + shift * count
                d = (self.d[:n, self.arm] - shift) * self.present[:n, self.arm]
                squares = float(d @ d) + 2 * shift * (sums - shift * count) + count * shift**2
                t2 = t_squared_of(np.clip(sums**2 / np.maximum(count * squares, 1e-300), 0, 1), int(count))
                if j == len(self.points) - 1:
                    observed = float(self.sums[j][0])
                    above[alive] = (sums[alive] >= observed - SAME * abs(observed)).astype(float)
                else:
                    crossed = alive & (t2 > c[j])
                    above[crossed] = (sums[crossed] > 0).astype(float)
                    alive &= ~crossed
            return float(above.mean())

        low, high = mean - 4 * error, mean + 4 * error
        for _ in range(STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if share_above(middle) >= 0.5 else (middle, high)
        return (low + high) / 2


# -- Student's t -------------------------------------------------------------------------------------------------------


class _StudentT:
    """Limits from simulated normal noise: the same rule with t of normal differences in place of sign patterns."""

    def __init__(self, differences: np.ndarray, design: Design, history: list[list[int]]) -> None:
        self.d = differences
        self.design, self.arms = design, len({arm for arms in history for arm in arms})
        self.number = len(history)

    def _kept(self, arm: int) -> tuple[float, float, int]:
        kept = self.d[np.isfinite(self.d[:, arm]), arm]
        return float(kept.mean()), float(kept.std(ddof=1)) / math.sqrt(len(kept)), len(kept)

    def _limits(self, factor: float) -> tuple[list[float], list[np.ndarray], list[np.ndarray]]:
        points = self.design.analyses[: self.number]
        return _t_limits(points, tuple(factor * share for share in self.design.spent[: self.number]), self.arms)

    def excludes(self, arm: int, shift: float, factor: float) -> bool:
        low, high = self.interval(arm, factor)
        return not low <= shift <= high

    def interval(self, arm: int, factor: float) -> tuple[float, float]:
        mean, error, count = self._kept(arm)
        half = _same_tail(math.sqrt(self._limits(factor)[0][-1]), len(self.d), count) * error
        return mean - half, mean + half

    def p(self, arm: int) -> float:
        mean, error, count = self._kept(arm)
        _, before, paths = self._limits(1.0)
        t = _same_tail(abs(mean) / error, count, len(self.d)) if error > 0 else (math.inf if mean else 0.0)
        beyond = (paths[-1][before[-1]] >= t**2).sum() + (~before[-1]).sum()
        return float(max(1, beyond) / len(before[-1]))

    def estimate(self, arm: int) -> float:
        return self._kept(arm)[0]


def t_rule_limits(design: Design, number: int, arms: int, pairs: int) -> tuple[float, float]:
    """The limits of t² at an analysis with the rule "t", for an arm that has this number of pairs: of a difference, and
    of equivalence. `arms` have been tested up to this analysis."""
    points, spent = design.analyses[:number], design.spent[:number]
    both = (_t_limits(points, tuple(k * share for share in spent), max(1, arms))[0][-1] for k in (1.0, 2.0))
    once, twice = (_same_tail(math.sqrt(limit), points[-1], pairs) ** 2 for limit in both)
    return once, twice


def _same_tail(t: float, n: int, other: int) -> float:
    """The t of `other` values that is exceeded as often as this t of n values: an arm may lack pairs."""
    return t if n == other else -float(scipy.special.stdtrit(other - 1, scipy.special.stdtr(n - 1, -t)))


@lru_cache(maxsize=64)
def _t_limits(
    points: tuple[int, ...], spent: tuple[float, ...], arms: int
) -> tuple[list[float], list[np.ndarray], list[np.ndarray]]:
    """The limits of t² for simulated studies without any effect, whose arms share a control."""
    paths = _t_paths(points[-1], points, arms)
    c, before = limits(paths, spent)
    return c, before, paths


@lru_cache(maxsize=16)
def _t_paths(pairs: int, points: tuple[int, ...], arms: int) -> list[np.ndarray]:
    """The largest t² of the arms (studies,) at each analysis."""
    found: list[list[np.ndarray]] = [[] for _ in points]
    rng = np.random.default_rng([pairs, arms])
    size = max(1000, 4_000_000 // (pairs * (arms + 1)))
    for _ in range(math.ceil(T_STUDIES / size)):
        values = rng.standard_normal((size, pairs, arms + 1))
        d = values[:, :, 1:] - values[:, :, :1]
        for j, n in enumerate(points):
            share = d[:, :n].sum(axis=1) ** 2 / (n * (d[:, :n] ** 2).sum(axis=1))
            found[j].append(t_squared_of(share, n).max(axis=1))
    return [np.concatenate(parts)[:T_STUDIES] for parts in found]
