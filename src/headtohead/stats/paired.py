"""Compares arms with a control by paired values. It works for any paired figures, not only those of runs.

    d_s = variant(s) − control(s)    for the pairs s = 1 … n, one seed each

Under the null hypothesis, swapping the two arms of a pair changes nothing, so each d_s could have the opposite sign.
The test flips these signs. It flips whole pairs, for all arms at once, because arms that share a control are dependent.
Shapes: n pairs, k arms, F sign patterns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import scipy  # scipy.special is imported when first used; scipy.stats would take a second
from numpy.typing import ArrayLike

from headtohead.errors import InputError

ALPHA = 0.05
LEAST_PAIRS = 6  # the smallest p of n pairs is 2^(1−n): with 5 pairs it cannot fall below ALPHA
ROUNDING = 1e-12  # relative; smaller differences are rounding errors and count as zero
EXACT_PAIRS = 16  # up to this number of pairs, the test uses every sign pattern
DRAWS = 20_000  # above it, this number of random patterns, the same ones each time
MOST_PAIRS = 10_000

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
    base = _values("control", control)
    if not variants:
        return {}
    arms = {name: _values(name, values) for name, values in variants.items()}
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


def _values(name: str, values: ArrayLike) -> np.ndarray:
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


# -- the test ----------------------------------------------------------------------------------------------------------


def sign_flip(differences: np.ndarray) -> np.ndarray:
    """Two-sided p-values (k,) of the differences (n, k), corrected for k arms; nan values are left out.

    The correction is the step-down procedure of Westfall and Young (1993) over the largest |t| of the arms, with whole
    pairs flipped for all arms at once.
    """
    n, k = differences.shape
    if n == 0:
        return np.ones(k)
    t2 = _t_squared(differences, sign_patterns(n))  # (F, k); the first pattern flips nothing
    order = np.argsort(-t2[0], kind="stable")
    t2 = t2[:, order]
    # step-down: compare an arm with the largest |t| among itself and the arms with smaller |t|
    largest = np.maximum.accumulate(t2[:, ::-1], axis=1)[:, ::-1]
    p = (largest >= t2[0] * (1 - 1e-9)).mean(axis=0)  # tolerate rounding errors in ties
    corrected = np.empty(k)
    corrected[order] = np.maximum.accumulate(p)
    return corrected


def _t_squared(differences: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Student's t squared (F, k) for each sign pattern. Flipping signs changes the sum, not the sum of squares."""
    present = np.isfinite(differences)
    d = np.where(present, differences, 0.0)
    scale = np.abs(d).max(axis=0)
    d = d / np.where(scale > 0, scale, 1.0)  # avoid underflow when tiny differences are squared
    count, squares = present.sum(axis=0), (d**2).sum(axis=0)
    share = (patterns @ d) ** 2 / np.where(squares > 0, count * squares, 1.0)  # 0 … 1; 1 if all differences are equal
    share[share < 1e-18] = 0.0  # only rounding errors
    rest = np.clip(1 - share, 0.0, None)
    rest[rest < 1e-12] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(count > 1, (count - 1) * share / rest, 0.0)


@lru_cache(maxsize=32)
def sign_patterns(n: int) -> np.ndarray:
    """Sign patterns (F, n) of ±1; the first pattern flips nothing.

    A pattern and its opposite give the same |t|, so the exact set contains only patterns that start with +1.
    """
    if n <= EXACT_PAIRS:
        return np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])
    drawn = np.random.default_rng(n).choice([1.0, -1.0], size=(min(DRAWS, 20_000_000 // n), n))
    drawn[0] = 1.0
    return drawn


# -- power -------------------------------------------------------------------------------------------------------------


def power(effect: float, pairs: int, arms: int = 1, correlation: float = 0.5) -> float:
    """The probability that an effect gets the verdict better or worse. The effect is in standard deviations of the
    differences.

    Assumes normal noise and no effect in the other arms. Differences of arms that share a control have a correlation of
    about 0.5.
    """
    if arms < 1:
        raise InputError(f"arms must be at least 1, not {arms}")
    if pairs < LEAST_PAIRS:
        return 0.0
    effect = min(abs(effect), 1e6)
    if pairs <= 11:  # few distinct p-values: simulate the rule; above, Student's t is accurate to 1 point
        return float(np.mean(_first_is_significant(_noise(pairs, arms, correlation) + _in_first_arm(effect, arms))))
    shift, limit = effect * math.sqrt(pairs), _limit(pairs, arms, correlation) * _sds(pairs)
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


def _first_is_significant(d: np.ndarray) -> np.ndarray:
    """Whether the first arm of d (draws, n, k) passes the rule of `_verdict`, for many simulated studies (draws,)."""
    draws, n, k = d.shape
    squares = (d**2).sum(axis=1)  # (draws, k)
    sums = d.sum(axis=1)
    share = sums**2 / (n * squares)
    beyond = np.zeros(draws)
    patterns = sign_patterns(n)
    for part in np.array_split(np.arange(draws), max(1, draws * len(patterns) * k // 4_000_000)):
        flipped = np.einsum("fn,snk->sfk", patterns, d[part], optimize=True) ** 2 / (n * squares[part, None])
        # single step instead of step-down: the other arms have no effect
        beyond[part] = (flipped.max(axis=2) >= share[part, :1] * (1 - 1e-9)).mean(axis=1)
    t2 = (n - 1) * share[:, 0] / np.maximum(1 - share[:, 0], 1e-300)
    return (beyond <= ALPHA) & (t2 > t_quantile(1 - ALPHA / 2, n) ** 2)


@lru_cache(maxsize=256)
def _limit(pairs: int, arms: int, correlation: float) -> float:
    """The 95 % quantile of the largest |t| among k arms without effect."""
    if arms == 1 or arms > 8 or pairs > 40:
        return t_quantile(float(scipy.special.ndtr(_normal_limit(arms, correlation))), pairs)
    rng = np.random.default_rng([pairs, arms])
    shared, own = rng.standard_normal((20_000, pairs, 1)), rng.standard_normal((20_000, pairs, arms))
    d = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
    t = np.abs(d.mean(axis=1)) / d.std(axis=1, ddof=1) * math.sqrt(pairs)
    return float(np.quantile(t.max(axis=1), 1 - ALPHA))


@lru_cache(maxsize=64)
def _normal_limit(arms: int, correlation: float) -> float:
    """The limit of `_limit` for infinitely many pairs."""
    if arms == 1:
        return float(scipy.special.ndtri(1 - ALPHA / 2))
    rng = np.random.default_rng(arms)
    shared, own = rng.standard_normal((100_000, 1)), rng.standard_normal((100_000, arms))
    z = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
    return float(np.quantile(np.abs(z).max(axis=1), 1 - ALPHA))


@lru_cache(maxsize=256)
def detectable(pairs: int, arms: int = 1, chance: float = 0.8) -> float:
    """The smallest effect, in standard deviations of the differences, that is detected with probability `chance`."""
    if pairs < LEAST_PAIRS:
        return math.inf
    low, high = 0.0, 1.0
    while power(high, pairs, arms) < chance:
        low, high = high, 2 * high
        if high > 1e3:
            return math.inf
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, pairs, arms) >= chance else (middle, high)
    return high


def pairs_for(effect: float, arms: int = 1, chance: float = 0.8) -> int | None:
    """The number of pairs that detect an effect, in standard deviations of the differences; None: above MOST_PAIRS."""
    if not effect > 0:
        return None
    low, high = LEAST_PAIRS - 1, LEAST_PAIRS
    while power(effect, high, arms) < chance:
        if high == MOST_PAIRS:
            return None
        low, high = high, min(2 * high, MOST_PAIRS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(effect, middle, arms) >= chance else (middle, high)
    return high


def pairs_for_equivalence(margin: float, chance: float = 0.8) -> int | None:
    """The number of pairs that find two equal arms equivalent. `margin` is in standard deviations."""
    if not margin > 0:
        return None
    for n in itertools.chain(range(LEAST_PAIRS, 200), range(200, MOST_PAIRS, 50)):
        room = margin * math.sqrt(n) - t_quantile(0.95, n) * _sds(n)  # left for the mean, in standard errors
        if np.clip(2 * scipy.special.ndtr(room) - 1, 0, None).mean() >= chance:
            return n
    return None


# -- items: other test texts, the same trained models ------------------------------------------------------------------


@dataclass(frozen=True)
class ItemTest:
    """The comparison of two trained models if the test texts were resampled. It does not cover other seeds."""

    difference: float  # weighted mean over items, variant − control
    low: float
    high: float
    items: int
    clusters: int
    p: float | None = None  # exact McNemar test, for right and wrong answers


def mcnemar(control: ArrayLike, variant: ArrayLike) -> float:
    """The exact p-value of McNemar's test for two classifiers on the same items, given which items each got right."""
    a, b = np.asarray(control, dtype=bool), np.asarray(variant, dtype=bool)
    if a.shape != b.shape:
        raise InputError(f"the classifiers have answers to {a.size} and {b.size} items: give both for the same items")
    gained, lost = int((~a & b).sum()), int((a & ~b).sum())
    disputed = gained + lost  # only items on which the classifiers disagree count
    ways = total = 1  # number of ways to choose i disputed items, and at most i; exact integers
    for i in range(1, min(gained, lost) + 1):
        ways = ways * (disputed - i + 1) // i
        total += ways
    return min(1.0, 2 * total / 2**disputed)


def over_items(
    differences: ArrayLike, weights: ArrayLike | None = None, clusters: ArrayLike | None = None, draws: int = 2000
) -> ItemTest:
    """The weighted mean difference over items, with a 95 % bootstrap interval.

    The bootstrap resamples whole clusters, such as documents, because items of one document are not independent.
    """
    d = _values("differences", differences)
    w = np.ones_like(d) if weights is None else _values("weights", weights)
    c = np.arange(len(d)) if clusters is None else np.unique(np.asarray(clusters).ravel(), return_inverse=True)[1]
    if not len(d) == len(w) == len(c) or len(d) == 0:
        raise InputError("differences, weights and clusters must have the same length, and at least one item")
    if np.isnan(d).any() or not (w >= 0).all() or not w.sum() > 0:
        raise InputError("every item needs a difference and a weight of 0 or more, and at least one weight above 0")
    count = int(c.max()) + 1
    top, bottom = np.bincount(c, d * w, count), np.bincount(c, w, count)
    picks = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=draws)  # (draws, clusters)
    means = (picks @ top) / np.maximum(picks @ bottom, np.finfo(float).tiny)
    low, high = np.quantile(means, [0.025, 0.975]) if count > 1 else (-math.inf, math.inf)
    return ItemTest(float(top.sum() / bottom.sum()), float(low), float(high), len(d), count)
