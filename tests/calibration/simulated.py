"""Simulates studies: how often each design errs, how often it finds an effect, and with how many pairs.

The functions take differences (S, n, k): studies, pairs, arms. They decide as `sequential` and `anytime` do, but
skip every test whose result is certain, so thousands of studies take seconds. Tests compare them with `judge` and
`compare_all`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from headtohead.stats import ALPHA, Design, sequential_design, sign_patterns
from headtohead.stats.anytime import KAPPAS
from headtohead.stats.sequential import _Flips, _StudentT

STORED = Path(__file__).parents[2] / "src" / "headtohead" / "recipes" / "published" / "measured"
RESERVE = 0.1
UNPLANNED = Design((8,), reserve=RESERVE)
LOOKS = 30  # pairs of a study that somebody looks at after every pair

# designs without a reserve spend all of their error on the planned analyses, so their false verdicts are most frequent
DESIGNS = {
    "6 pairs": Design((6,), reserve=0.0),
    "8 pairs": Design((8,), reserve=0.0),
    "10 pairs": Design((10,), reserve=0.0),
    "20 pairs": Design((20,), reserve=0.0),
    "6/8/10": sequential_design(10, reserve=0.0),
    "6/8/10/14/20": sequential_design(20, reserve=0.0),
    "8 pairs, rule t": Design((8,), reserve=0.0, rule="t"),
    "6/8/10/14/20, rule t": sequential_design(20, reserve=0.0, rule="t"),
}
MIXED = {1: (1.0,), 4: (0.0, 1.0, 2.0, 4.0), 8: (0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 6.0)}


# -- noise -------------------------------------------------------------------------------------------------------------

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
BOTH_ARMS: dict[str, Draw] = {
    "normal": lambda make, shape: make.normal(size=shape),
    "Student's t, 3 degrees": lambda make, shape: make.standard_t(3, size=shape),
    "exponential": lambda make, shape: make.exponential(size=shape),
    "log-normal (σ 1.5)": lambda make, shape: make.lognormal(sigma=1.5, size=shape),
}
RESIDUALS = "residuals of stored studies"
NOISES = (*BOTH_ARMS, RESIDUALS)

# an arm that is usually a little better and sometimes much worse, with a mean difference of zero
SKEWED: dict[str, Draw] = {
    "exponential": lambda make, shape: make.exponential(size=shape) - 1,
    "log-normal (σ 1.5)": lambda make, shape: make.lognormal(sigma=1.5, size=shape) - math.exp(1.5**2 / 2),
}


def noise(kind: str, studies: int, n: int, arms: int, seed: int = 0) -> np.ndarray:
    """Differences (S, n, k) of arms without any effect. All arms share the control, and normal differences have a
    standard deviation of 1."""
    make = np.random.default_rng([n, arms, NOISES.index(kind), seed])
    if kind == RESIDUALS:
        return np.stack([_residuals(make, n, arms) for _ in range(studies)])
    values = BOTH_ARMS[kind](make, (studies, n, arms + 1)) / math.sqrt(2)
    return values[:, :, 1:] - values[:, :, :1]


# studies that were stored after benchmarks/measured/calibration.json was measured: it stays comparable without
# them. With them the rule t exceeds the limit of these tests (docs/log.md)
LATER = {
    *("classifier-fresh", "nano-fresh", "optimizers-report"),
    *("positions-everywhere", "positions-everywhere_from_sinusoidal", "window-everywhere"),
}


@lru_cache(maxsize=1)
def stored_residuals() -> list[np.ndarray]:
    """The centred differences (n, k) of each table in the stored studies, in standard deviations."""
    found = []
    for file in sorted(file for file in STORED.glob("*.json") if file.stem not in LATER):
        stored = json.loads(file.read_text(encoding="utf-8"))
        if "study" not in stored:
            continue
        metric = stored["study"]["metric"]
        for table in stored["study"]["tables"]:
            values = [
                {seed: (stored["runs"][run].get("result") or {}).get("values", {}).get(metric) for seed, run in runs}
                for runs in (arm["runs"].items() for arm in table["arms"])
            ]
            seeds = [s for s in values[0] if all(v.get(s) is not None for v in values)]
            if len(seeds) < 6 or len(values) < 2:
                continue
            rows = np.array([[v[s] for v in values] for s in seeds], dtype=float)
            d = rows[:, 1:] - rows[:, :1]
            d = d[:, d.std(axis=0) > 0]
            if d.size and np.isfinite(d).all():
                found.append((d - d.mean(axis=0)) / d.std(axis=0, ddof=1))
    return found


def _residuals(make: np.random.Generator, n: int, arms: int) -> np.ndarray:
    """Resampled pairs of stored studies, each with a random sign; arms of one stored table stay together."""
    tables, columns = stored_residuals(), 0
    parts: list[np.ndarray] = []
    while columns < arms:
        table = tables[make.integers(len(tables))]
        chosen = make.permutation(table.shape[1])[: arms - columns]
        parts.append(table[make.integers(len(table), size=n)][:, chosen])
        columns += len(chosen)
    return np.concatenate(parts, axis=1) * make.choice([-1.0, 1.0], size=(n, 1))


# -- planned analyses --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decided:
    """What the planned analyses found, for each study and arm (S, k)."""

    differs: np.ndarray  # the number of the analysis; 0: at none
    equivalent: np.ndarray
    missed: np.ndarray  # whether any analysis excluded the true difference
    estimate: np.ndarray  # nan unless it was asked for

    def pairs(self, design: Design) -> np.ndarray:
        """The pairs (S, k) that were needed; all of them if the arm stayed open."""
        at = np.maximum(self.differs, self.equivalent)
        return np.array([design.pairs, *design.analyses])[at]


def decide(
    d: np.ndarray, design: Design, truth: Sequence[float] | None = None, margin: float | None = None, estimate=False
) -> Decided:
    """`sequential.judge` of many studies. It tests an arm only where the arm alone, which has a smaller p, passes."""
    studies, _, k = d.shape
    true = np.zeros(k) if truth is None else np.asarray(truth)
    differs, equivalent = np.zeros((2, studies, k), dtype=int)
    missed, estimates = np.zeros((studies, k), dtype=bool), np.full((studies, k), np.nan)
    may_differ = _may_be_excluded(d, design, 1.0)
    may_miss = may_differ.copy() if not true.any() else _may_be_excluded(d - true, design, 1.0)
    may_equal = np.zeros_like(may_differ)
    if margin is not None:
        may_equal = _may_be_excluded(d - margin, design, 2.0) & _may_be_excluded(d + margin, design, 2.0)
    make = _Flips if design.rule == "flips" else _StudentT
    for s in np.flatnonzero((may_differ | may_miss | may_equal).any(axis=(0, 2)) | estimate):
        arms, history = list(range(k)), []
        for number, (pairs, share) in enumerate(zip(design.analyses, design.spent, strict=True), start=1):
            history.append(arms)
            last, j = number == len(design.analyses), number - 1
            one = _One(d[s, :pairs], arms, share, design.rule)
            for a in arms:
                may_differ[j, s, a] = may_differ[j, s, a] and one.may_exclude(a, 0.0)
                may_miss[j, s, a] = may_miss[j, s, a] and one.may_exclude(a, true[a])
            hot = [a for a in arms if may_differ[j, s, a] or may_miss[j, s, a] or may_equal[j, s, a]]
            if not hot and not (estimate and last):
                continue
            test = make(d[s, :pairs], design, history)
            for a in hot:
                missed[s, a] |= bool(may_miss[j, s, a]) and test.excludes(a, true[a], 1.0)
                if may_equal[j, s, a] and abs(d[s, :pairs, a].mean()) < margin:
                    both = test.excludes(a, margin, 2.0) and test.excludes(a, -margin, 2.0)
                    equivalent[s, a] = number if both else 0
                if may_differ[j, s, a] and not equivalent[s, a] and test.excludes(a, 0.0, 1.0):
                    differs[s, a] = number
            gone = [a for a in arms if differs[s, a] or equivalent[s, a]]
            if estimate:
                for a in arms if last else gone:
                    estimates[s, a] = test.estimate(a)
            arms = [a for a in arms if a not in gone]
            if not arms:
                break
    return Decided(differs, equivalent, missed, estimates)


class _One:
    """One analysis as if it were the only one: its p is never larger than that of the whole study so far."""

    def __init__(self, d: np.ndarray, arms: list[int], share: float, rule: str) -> None:
        self.d, self.arms, self.share, self.rule = d, arms, share, rule
        self.patterns = sign_patterns(len(d))
        self.centred: np.ndarray | None = None

    def may_exclude(self, arm: int, shift: float) -> bool:
        if self.rule == "t":
            return True
        own = _unit_sums(self.patterns, self.d[:, [arm]] - shift)[:, 0]
        if (own > own[0] * (1 + 1e-6)).mean() > self.share:
            return False
        if self.centred is None:
            self.centred = _unit_sums(self.patterns, (self.d - self.d.mean(axis=0))[:, self.arms])
        others = self.centred[:, [a != arm for a in self.arms]]
        largest = np.maximum(own, others.max(axis=1, initial=0.0))
        return bool((largest > own[0] * (1 + 1e-6)).mean() <= self.share)


def _unit_sums(patterns: np.ndarray, d: np.ndarray) -> np.ndarray:
    """|Σd| / √(n Σd²) for each pattern and arm; t² rises with it."""
    return np.abs(patterns @ (d / np.sqrt(len(d) * (d**2).sum(axis=0))))


def _may_be_excluded(d: np.ndarray, design: Design, factor: float) -> np.ndarray:
    """(analyses, S, k) whether the test of this arm alone excludes zero. Its p is never larger than the joint p."""
    studies, _, k = d.shape
    found = np.ones((len(design.analyses), studies, k), dtype=bool)
    if design.rule == "t":
        return found
    for j, (n, share) in enumerate(zip(design.analyses, design.spent, strict=True)):
        patterns = sign_patterns(n)
        columns = d[:, :n].transpose(1, 0, 2).reshape(n, -1)
        for part in np.array_split(np.arange(studies * k), max(1, studies * k * len(patterns) // 4_000_000)):
            sums = np.abs(patterns @ columns[:, part])
            beyond = (sums > sums[0] * (1 + 1e-6)).mean(axis=0)
            found[j].reshape(-1)[part] = beyond <= factor * share
    return found


# -- unplanned analyses ------------------------------------------------------------------------------------------------


def capitals(d: np.ndarray) -> np.ndarray:
    """The largest logarithm of the capital (S, n, k) up to each pair: `anytime.capital` of many studies."""
    n = d.shape[1]
    z = d / np.sqrt(np.cumsum(d**2, axis=1) / np.arange(1, n + 1)[:, None])
    bets = [side * kappa for side in (-1, 1) for kappa in KAPPAS]
    logs = np.stack([np.cumsum(math.log(2) - np.logaddexp(0, -2 * b * z), axis=1) for b in bets])
    paths = np.logaddexp.reduce(logs, axis=0) - math.log(len(bets))
    return np.maximum(0.0, np.maximum.accumulate(paths, axis=1))


def needed(arms: int | np.ndarray, factor: float = 1.0, reserve: float = RESERVE) -> np.ndarray:
    """The logarithm of the capital that excludes a difference."""
    return np.log(np.asarray(arms) / (factor * ALPHA * reserve))


def false_at_any_pair(d: np.ndarray) -> np.ndarray:
    """(S,) whether a study of eight planned pairs ever shows better or worse, if somebody looks after every pair."""
    at_any = capitals(d)[:, -1] >= needed(d.shape[2])
    return (decide(d[:, :8], UNPLANNED).differs > 0).any(axis=1) | at_any.any(axis=1)


def false_with_more_seeds(d: np.ndarray, looks: Sequence[int] = (12, 16, 20, 30)) -> np.ndarray:
    """(S,) the same, if seeds are added to a study of eight pairs for as long as it is unresolved."""
    at_any = capitals(d)[:, [n - 1 for n in looks]].max(axis=1) >= needed(d.shape[2])
    return (decide(d[:, :8], UNPLANNED).differs > 0).any(axis=1) | at_any.any(axis=1)


def false_with_later_arms(d: np.ndarray) -> np.ndarray:
    """(S,) whether any table shows better or worse: the first arm was planned, the others are added one at a time, and
    every table is shown."""
    at_any = capitals(d)[:, -1] >= needed(np.arange(1, d.shape[2] + 1))
    return (decide(d[:, :8, :1], UNPLANNED).differs > 0).any(axis=1) | at_any.any(axis=1)


def equivalent_at_any_pair(d: np.ndarray, margin: float) -> np.ndarray:
    """(S,) whether a look after any pair from six on shows an arm as equivalent."""
    means = np.cumsum(d, axis=1) / np.arange(1, d.shape[1] + 1)[:, None]
    limit = needed(d.shape[2], 2.0)
    inside = (capitals(d - margin) >= limit) & (capitals(d + margin) >= limit) & (np.abs(means) < margin)
    planned = decide(d[:, :8], UNPLANNED, margin=margin).equivalent > 0
    return inside[:, 5:].any(axis=(1, 2)) | planned.any(axis=1)
