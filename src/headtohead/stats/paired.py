"""Compares arms with a control by paired values. It works for any paired figures, not only those of runs.

    d_s = variant(s) − control(s)    for the pairs s = 1 … n, one seed each

Under the null hypothesis, swapping the two arms of a pair changes nothing, so each d_s could have the opposite sign.
The test flips these signs. It flips whole pairs, for all arms at once, because arms that share a control are dependent.
Shapes: n pairs, k arms, F sign patterns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from headtohead.errors import InputError
from headtohead.stats.intervals import ALPHA, LEAST_PAIRS, interval
from headtohead.stats.power import detectable, pairs_for
from headtohead.stats.signflip import sign_flip

ROUNDING = 1e-12  # relative; smaller differences are rounding errors and count as zero

Word = Literal["better", "worse", "equivalent", "unresolved"]
Way = Literal["lower", "higher"]


@dataclass(frozen=True)
class Verdict:
    """The comparison of one arm with the control. `difference` is variant − control, in the unit of the metric."""

    verdict: Word
    difference: float
    low: float  # 95 % interval of the difference (Student's t)
    high: float
    p: float  # sign-flip test, corrected for the number of arms
    p_alone: float  # sign-flip test without that correction
    pairs: int
    descriptive: bool  # True: too few pairs for a verdict
    sd: float  # standard deviation of the differences
    agree: int  # number of pairs whose difference has the sign of the mean
    correlation: float | None  # between control and variant over the pairs; None if one of them is constant
    margin: float | None = None
    arms: int = 1  # that were compared with the control

    # Both are simulated, which takes longer than all the rest, so they are computed when they are asked for.

    @cached_property
    def smallest_effect(self) -> float | None:
        """The difference that this number of pairs detects with 80 % power, at this noise."""
        return None if self.descriptive else self.sd * detectable(self.pairs, self.arms)

    @cached_property
    def pairs_needed(self) -> int | None:
        """The pairs that detect a difference as large as this one; None where it is detected, or never would be."""
        if self.is_real or self.pairs < 2 or not self.difference or not self.sd > 0:
            return None
        return pairs_for(abs(self.difference) / self.sd, self.arms)

    @property
    def is_real(self) -> bool:
        """Whether test and interval exclude zero."""
        return not self.descriptive and self.p <= ALPHA and (self.low > 0 or self.high < 0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"smallest_effect": self.smallest_effect, "pairs_needed": self.pairs_needed}


def compare(control: ArrayLike, variant: ArrayLike, margin: float | None = None, *, better: Way = "lower") -> Verdict:
    """Compare one arm with the control. The values are paired: the same index means the same seed.

    With a `margin`, arms whose difference is shown to be smaller than the margin are *equivalent*.
    """
    return compare_all(control, {"variant": variant}, margin, better=better)["variant"]


def compare_all(
    control: ArrayLike, variants: Mapping[str, ArrayLike], margin: float | None = None, *, better: Way = "lower"
) -> dict[str, Verdict]:
    """Compare several arms with one control over the same seeds.

    A missing value (nan) of an arm leaves the pair out for that arm only.
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
    p_alone = [float(sign_flip(differences[:, [k]])[0]) for k in range(len(arms))]
    p = _corrected(differences, p_alone)
    margin = None if margin is None else margin / unit
    compared = max(1, int(np.isfinite(differences).any(axis=0).sum()))  # an arm without a pair is no comparison
    return {
        name: _scaled(unit, _verdict(base, values, p_alone[k], p[k], compared, margin, better))
        for k, (name, values) in enumerate(arms.items())
    }


def _corrected(differences: np.ndarray, p_alone: list[float]) -> list[float]:
    """Correct p for the arms with enough pairs for a verdict. Arms with fewer pairs do not enter the correction: an
    extreme t of two pairs would hide the other arms."""
    family = np.isfinite(differences).sum(axis=0) >= LEAST_PAIRS
    if not family.any():
        family[:] = True
    p = np.array(p_alone)
    p[family] = sign_flip(differences[:, family])
    return [float(x) for x in p]


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
    scaled = ("difference", "low", "high", "sd", "margin")
    changed: dict[str, Any] = {k: None if getattr(v, k) is None else getattr(v, k) * unit for k in scaled}
    return replace(v, **changed)


def _verdict(
    control: np.ndarray, variant: np.ndarray, p_alone: float, p: float, arms: int, margin: float | None, better: Way
) -> Verdict:
    d = variant - control
    present = np.isfinite(d)
    d, n = d[present], int(present.sum())
    mean = float(d.mean()) if n else math.nan
    sd = float(d.std(ddof=1)) if n > 1 else math.nan
    low, high = interval(d)
    enough = n >= LEAST_PAIRS
    real = enough and p <= ALPHA and (low > 0 or high < 0)
    word: Word = "unresolved"
    if real:
        word = "better" if (mean < 0) == (better == "lower") else "worse"
    if enough and margin is not None:
        inner_low, inner_high = interval(d, 0.90)
        if -margin < inner_low and inner_high < margin:  # two one-sided tests
            word = "equivalent"
    return Verdict(
        verdict=word,
        difference=mean,
        low=low,
        high=high,
        p=p,
        p_alone=p_alone,
        pairs=n,
        descriptive=not enough,
        sd=sd,
        agree=int((np.sign(d) == np.sign(mean)).sum()) if mean else 0,
        correlation=_correlation(control[present], variant[present]),
        margin=margin,
        arms=arms,
    )


def _correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    return float(np.clip(a @ b / size, -1, 1)) if size > 0 else None
