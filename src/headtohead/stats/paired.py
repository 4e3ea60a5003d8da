"""Compares arms with a control by paired values. It works for any paired figures, not only those of runs.

    d_s = variant(s) − control(s)    for the pairs s = 1 … n, one seed each

A verdict is decided by one interval. It holds every difference that neither the planned analyses (`sequential`) nor the
test for unplanned ones (`anytime`) exclude. It is simultaneous: with 95 % certainty the intervals of all arms hold
their true differences, at all analyses.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from headtohead.errors import InputError
from headtohead.stats.anytime import anytime_interval, anytime_p, reserve_parts
from headtohead.stats.design import ALPHA, LEAST_PAIRS, Design
from headtohead.stats.intervals import interval
from headtohead.stats.power import detectable, pairs_for_equivalence
from headtohead.stats.sequential import NOT_JUDGED, Judged, judge
from headtohead.stats.signflip import alone

ROUNDING = 1e-12  # relative; smaller differences are rounding errors and count as zero

Word = Literal["better", "worse", "equivalent", "unresolved"]
Way = Literal["lower", "higher"]


@dataclass(frozen=True)
class Verdict:
    """The comparison of one arm with the control. Differences are variant − control, in the unit of the metric."""

    verdict: Word
    difference: float  # mean of the pairs
    low: float  # simultaneous interval: it holds for all arms and analyses together, and it decides
    high: float
    p: float  # corrected for the number of arms and analyses
    p_alone: float  # sign-flip test of this arm alone, without any correction
    pairs: int
    descriptive: bool  # True: too few pairs for a verdict
    sd: float  # standard deviation of the differences
    agree: int  # number of pairs whose difference has the sign of the mean
    correlation: float | None  # between control and variant over the pairs; None if one of them is constant
    alone_low: float  # 95 % interval of this arm alone, as if it were the only arm and the only analysis (Student's t)
    alone_high: float
    estimate: float  # the difference, corrected for stopping early
    inner_low: float  # the narrower interval that decides equivalence (two one-sided tests)
    inner_high: float
    margin: float | None = None
    arms: int = 1  # that were compared with the control
    analysis: int = 1  # number of the planned analysis that the verdict is from; 0: before the first
    analyses: int = 1  # planned
    spent: float = ALPHA  # error that the analyses so far may have spent
    planned: bool = True  # False: decided by the test for unplanned analyses

    # They are simulated, which takes longer than all the rest, so they are computed when they are asked for.

    @cached_property
    def smallest_effect(self) -> float | None:
        """The difference that this number of pairs detects with 80 % power, at this noise, in one analysis."""
        return None if self.descriptive else self.sd * detectable(self.pairs, self.arms, alpha=self.spent or ALPHA)

    @cached_property
    def pairs_for_margin(self) -> int | None:
        """The pairs that show equal arms to be equivalent within the margin, if the noise is as large as the upper
        limit of its 80 % interval; None without a margin, or if the arm is decided."""
        if self.margin is None or self.verdict != "unresolved" or self.pairs < 2 or not self.sd > 0:
            return None
        return pairs_for_equivalence(self.margin / upper_sd(self.sd, self.pairs), self.arms, alpha=self.spent or ALPHA)

    @property
    def is_real(self) -> bool:
        """Whether the interval that decides excludes zero."""
        return not self.descriptive and (self.low > 0 or self.high < 0)

    @property
    def resolved_alone(self) -> bool:
        """Whether this arm would be better or worse if it were the only arm and this the only analysis."""
        outside = self.alone_low > 0 or self.alone_high < 0
        return self.verdict == "unresolved" and not self.descriptive and outside and self.p_alone <= ALPHA

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"smallest_effect": self.smallest_effect, "pairs_for_margin": self.pairs_for_margin}


def upper_sd(sd: float, pairs: int) -> float:
    """The upper limit of the 80 % interval of a standard deviation that was measured on this number of pairs."""
    free = pairs - 1
    return sd * math.sqrt(free / (2 * float(scipy.special.gammaincinv(free / 2, 0.1))))


def compare(control: ArrayLike, variant: ArrayLike, margin: float | None = None, *, better: Way = "lower") -> Verdict:
    """Compare one arm with the control. The values are paired: the same index means the same seed.

    With a `margin`, arms whose difference is shown to be smaller than the margin are *equivalent*.
    """
    return compare_all(control, {"variant": variant}, margin, better=better)["variant"]


def compare_all(
    control: ArrayLike,
    variants: Mapping[str, ArrayLike],
    margin: float | None = None,
    *,
    better: Way = "lower",
    design: Design | None = None,
    later: Collection[str] = (),
    ended: int | None = None,
) -> dict[str, Verdict]:
    """Compare several arms with one control over the same seeds.

    A missing value (nan) of an arm leaves the pair out for that arm only. `design` lists the planned analyses; without
    it there is one, of all pairs. Arms in `later` were added after the first analysis: only the test for unplanned
    analyses judges them. Planned analyses use the first `ended` pairs, because later pairs still have runs to
    train; without it, they use all pairs.
    """
    if margin is not None:
        margin = _number("margin", margin)
        if not margin > 0:
            raise InputError(
                f"margin must be above zero, not {margin}: give the largest difference that does not matter"
            )
    if better not in ("lower", "higher"):
        raise InputError(f"better must be 'lower' or 'higher', not '{better}'")
    base = numbers("control", control)
    if not variants:
        return {}
    arms = {name: numbers(name, values) for name, values in variants.items()}
    for name, values in arms.items():
        if len(values) != len(base):
            raise InputError(
                f"{name} has {len(values)} values and the control {len(base)}: give one value per pair for each"
            )
    unit = _unit(np.concatenate([base, *arms.values()]))
    base, arms = base / unit, {name: values / unit for name, values in arms.items()}
    arms = {name: np.where(abs(values - base) < ROUNDING * abs(base), base, values) for name, values in arms.items()}
    differences = np.stack([values - base for values in arms.values()], axis=1)  # (n, k)
    margin = None if margin is None else margin / unit
    design = design or Design((max(2, len(base)),), reserve=0.0)
    planned = [k for k, name in enumerate(arms) if name not in later]
    judged = dict(zip(planned, judge(differences[:ended, planned], design, margin), strict=True))
    has_pairs = {name: bool(np.isfinite(values - base).any()) for name, values in arms.items()}
    compared = max(1, sum(has_pairs.values()))  # an arm without a pair is no comparison
    parts = parts_of_reserve(has_pairs, later)
    found = {}
    for k, (name, values) in enumerate(arms.items()):
        rule = _Rule(design, margin, better, compared, parts[name])
        found[name] = _scaled(unit, rule.verdict(base, values, judged.get(k, NOT_JUDGED)))
    return found


def parts_of_reserve(arms: Mapping[str, bool], later: Collection[str]) -> dict[str, int]:
    """The number by which the reserved error is divided for each arm. `arms` says which of them have a pair: an arm
    without one is no comparison."""
    planned = [name for name, compared in arms.items() if compared and name not in later]
    added = [name for name in later if arms.get(name)]
    found = dict(zip([*planned, *added], reserve_parts(len(planned), len(added)), strict=True))
    return {name: found.get(name, 1) for name in arms}


def _number(name: str, value: Any) -> float:
    try:
        return float(value + 0)  # refuses text such as "1"
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, not {value!r}") from None


def numbers(name: str, values: ArrayLike) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf" and not (array.dtype.kind == "O" or array.size == 0):
            raise TypeError
        array = array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{name} contains a value that is not a number: give numbers, or nan for a missing one"
        ) from None
    if array.ndim != 1:
        raise InputError(f"{name} must be a flat list of numbers, not an array of shape {array.shape}")
    if np.isinf(array).any():
        raise InputError(f"{name} contains an infinite value: leave that pair out, or replace the value by nan")
    return array


def _unit(values: np.ndarray) -> float:
    """A power of two near the largest value. Dividing by it is exact and keeps squares finite."""
    largest = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 0.0
    return 2.0 ** min(max(math.frexp(largest)[1], -1000), 1000) if largest else 1.0


def _scaled(unit: float, v: Verdict) -> Verdict:
    """The verdict in the original unit, undoing the division by `_unit`."""
    if math.isinf(v.difference * unit):
        raise InputError("the values differ by more than a float can hold: give them in a larger unit")
    scaled = (
        "difference",
        "low",
        "high",
        "sd",
        "margin",
        "alone_low",
        "alone_high",
        "estimate",
        "inner_low",
        "inner_high",
    )
    changed: dict[str, Any] = {k: None if getattr(v, k) is None else getattr(v, k) * unit for k in scaled}
    return replace(v, **changed)


@dataclass(frozen=True)
class _Rule:
    """How one arm of a table is judged."""

    design: Design
    margin: float | None
    better: Way
    arms: int  # of the table
    parts: int  # by which the reserved error is divided for this arm

    def verdict(self, control: np.ndarray, variant: np.ndarray, judged: Judged) -> Verdict:
        if judged.state != "open":  # later pairs do not change the verdict of a planned analysis
            control, variant = control[: judged.pairs], variant[: judged.pairs]
        present = np.isfinite(variant - control)
        control, variant = control[present], variant[present]
        d, n = variant - control, int(present.sum())
        mean = float(d.mean()) if n else math.nan
        any_low, any_high = self._anytime(d, 1.0) if judged.state == "open" else (-math.inf, math.inf)
        low, high = max(judged.low, any_low), min(judged.high, any_high)
        any_inner = self._anytime(d, 2.0) if judged.state == "open" else (-math.inf, math.inf)
        inner_low, inner_high = max(judged.inner_low, any_inner[0]), min(judged.inner_high, any_inner[1])
        enough, word, margin = n >= LEAST_PAIRS, "unresolved", self.margin
        if enough and (low > 0 or high < 0):
            word = "better" if (high < 0) == (self.better == "lower") else "worse"
        if enough and margin is not None and -margin < inner_low and inner_high < margin:  # two one-sided tests
            word = "equivalent"
        alone_low, alone_high = interval(d)
        if not enough:  # it decides nothing: describe the pairs
            low, high, inner_low, inner_high = alone_low, alone_high, *interval(d, 0.90)
        unplanned = word != "unresolved" and judged.state == "open"
        number = judged.analysis
        return Verdict(
            verdict=word,  # type: ignore[arg-type]
            difference=mean,
            low=low,
            high=high,
            p=self._p(d, judged),
            p_alone=alone(d),
            pairs=n,
            descriptive=not enough,
            sd=float(d.std(ddof=1)) if n > 1 else math.nan,
            agree=int((np.sign(d) == np.sign(mean)).sum()) if mean else 0,
            correlation=_correlation(control, variant),
            alone_low=alone_low,
            alone_high=alone_high,
            estimate=judged.estimate if judged.state != "open" and math.isfinite(judged.estimate) else mean,
            inner_low=inner_low,
            inner_high=inner_high,
            margin=margin,
            arms=self.arms,
            analysis=number,
            analyses=len(self.design.analyses),
            spent=self.design.spent[number - 1] if number else 0.0,
            planned=not unplanned,
        )

    def _anytime(self, d: np.ndarray, factor: float) -> tuple[float, float]:
        return anytime_interval(d, factor * self.design.alpha * self.design.reserve, self.parts)

    def _p(self, d: np.ndarray, judged: Judged) -> float:
        """The smaller p of the two tests, each corrected for its share of the error."""
        if len(d) < LEAST_PAIRS:
            return alone(d)
        reserve = self.design.reserve
        p = judged.p / (1 - reserve) if judged.analysis else 1.0
        if reserve and judged.state == "open" and len(d):
            p = min(p, anytime_p(d, self.parts) / reserve)
        return float(min(1.0, p))


def _correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    return float(np.clip(a @ b / size, -1, 1)) if size > 0 else None
