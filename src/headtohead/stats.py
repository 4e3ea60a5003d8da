"""What paired values say of an arm against the control. numpy and scipy alone: it serves any figures, not only ours.

    d_s = variant(s) − control(s)    over the pairs s = 1 … n, one seed each

The null hypothesis is that swapping the two arms of a pair changes nothing, so every d_s might as well have the other
sign. The test therefore flips signs: exactly, of whole pairs at once, so that arms which share their control keep
their dependence. Shapes: n pairs, k arms, F sign patterns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special  # scipy.stats has all of this too, and takes a second to load

from headtohead.errors import InputError

ALPHA = 0.05
LEAST_PAIRS = 6  # the smallest p of n pairs is 2^(1−n): with five no difference could ever be called real
ROUNDING = 1e-12  # of a value: a difference below is that of adding up in another order
EXACT_PAIRS = 16  # up to here every sign pattern is tried
DRAWS = 20_000  # beyond, so many at random, always the same ones
MOST_PAIRS = 10_000

Word = Literal["better", "worse", "equivalent", "unresolved"]
Way = Literal["lower", "higher"]


@dataclass(frozen=True)
class Verdict:
    """An arm against the control. `difference` is variant − control, in the metric's own unit."""

    verdict: Word
    difference: float
    low: float  # 95 % interval of the difference, by Student's t
    high: float
    p: float  # of the sign-flip test, corrected for every arm that was compared
    p_alone: float  # the same as if this arm had been the only one
    pairs: int
    descriptive: bool  # too few pairs for any verdict
    sd: float  # of the differences
    agree: int  # pairs whose difference has the sign of the mean
    correlation: float | None  # between the arms over the pairs: what pairing gained; none where either is constant
    smallest_effect: float | None  # seen with 80 % power by so many pairs of this noise
    pairs_needed: int | None  # to see a difference as large as this one; none: hopeless, or seen already
    margin: float | None = None


def compare(control: ArrayLike, variant: ArrayLike, margin: float | None = None, *, better: Way = "lower") -> Verdict:
    """One arm against the control, value by value of the same seeds. With a `margin`, differences that are surely
    smaller are *equivalent*."""
    return compare_all(control, {"variant": variant}, margin, better=better)["variant"]


def compare_all(
    control: ArrayLike, variants: Mapping[str, ArrayLike], margin: float | None = None, *, better: Way = "lower"
) -> dict[str, Verdict]:
    """Arms that share their control and seeds. A value that is not a number leaves its pair out of that arm alone."""
    if margin is not None:
        margin = _number("margin", margin)
        if not margin > 0:
            raise InputError(f"a margin is a difference that does not matter, so above zero, not {margin}")
    if better not in ("lower", "higher"):
        raise InputError(f"better is 'lower' or 'higher', not '{better}'")
    base = _values("control", control)
    if not variants:
        return {}
    arms = {name: _values(name, values) for name, values in variants.items()}
    for name, values in arms.items():
        if len(values) != len(base):
            raise InputError(f"{name} has {len(values)} values and the control {len(base)}: pairs need one each")
    unit = _unit(np.concatenate([base, *arms.values()]))
    base, arms = base / unit, {name: values / unit for name, values in arms.items()}
    arms = {name: np.where(abs(values - base) < ROUNDING * abs(base), base, values) for name, values in arms.items()}
    differences = np.stack([values - base for values in arms.values()], axis=1)  # (n, k)
    p_alone = [float(sign_flip(differences[:, [k]])[0]) for k in range(len(arms))]
    p = _corrected(differences, p_alone)
    margin = None if margin is None else margin / unit
    return {
        name: _in(unit, _verdict(base, values, p_alone[k], p[k], len(arms), margin, better))
        for k, (name, values) in enumerate(arms.items())
    }


def _corrected(differences: np.ndarray, p_alone: list[float]) -> list[float]:
    """Of the arms that can get a verdict. One of two lucky pairs, which cannot, must not hide the others."""
    family = np.isfinite(differences).sum(axis=0) >= LEAST_PAIRS
    if not family.any():
        family[:] = True
    p = np.array(p_alone)
    p[family] = sign_flip(differences[:, family])
    return [float(x) for x in p]


def _number(name: str, value: Any) -> float:
    try:
        return float(value + 0)  # a text is no number, whatever it says
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, not {value!r}") from None


def _values(name: str, values: ArrayLike) -> np.ndarray:
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "biuf" and not (found.dtype.kind == "O" or found.size == 0):
            raise TypeError
        found = found.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} holds something that is not a number") from None
    if found.ndim != 1:
        raise InputError(f"{name} must be a list of numbers, one each, not of shape {found.shape}")
    if np.isinf(found).any():
        raise InputError(f"{name} holds an infinite value: leave that run out, or put nan in its place")
    return found


def _unit(values: np.ndarray) -> float:
    """A power of two near the largest value: dividing by it costs no digit, and squares stay within bounds."""
    largest = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 0.0
    return 2.0 ** min(max(math.frexp(largest)[1], -1000), 1000) if largest else 1.0


def _in(unit: float, v: Verdict) -> Verdict:
    if math.isinf(v.difference * unit):
        raise InputError("the values are too far apart for any computer: measure them in a larger unit")
    scaled = ("difference", "low", "high", "sd", "smallest_effect", "margin")
    changed: dict[str, Any] = {k: None if getattr(v, k) is None else getattr(v, k) * unit for k in scaled}
    return replace(v, **changed)


def _verdict(
    control: np.ndarray, variant: np.ndarray, p_alone: float, p: float, arms: int, margin: float | None, better: Way
) -> Verdict:
    d = variant - control
    there = np.isfinite(d)
    d, n = d[there], int(there.sum())
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
        correlation=_correlation(control[there], variant[there]),
        smallest_effect=sd * detectable(n, arms) if enough else None,
        pairs_needed=pairs_for(abs(mean) / sd, arms) if not real and n > 1 and mean and sd > 0 else None,
        margin=margin,
    )


def _correlation(a: np.ndarray, b: np.ndarray) -> float | None:
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    return float(np.clip(a @ b / size, -1, 1)) if size > 0 else None


def interval(d: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean."""
    n = len(d)
    if n < 2:
        return -math.inf, math.inf
    half = float(t_quantile((1 + level) / 2, n) * d.std(ddof=1) / math.sqrt(n))
    return float(d.mean()) - half, float(d.mean()) + half


def t_quantile(share: float, n: int) -> float:
    """Of Student's t for the mean of n values."""
    return float(special.stdtrit(n - 1, share))


# -- the test ----------------------------------------------------------------------------------------------------------


def sign_flip(differences: np.ndarray) -> np.ndarray:
    """(k,) two-sided p-values of (n, k) differences, corrected for all k: step-down over the largest |t| of the arms
    (Westfall and Young 1993), under joint flips of whole pairs. What is not a number is left out."""
    n, k = differences.shape
    if n == 0:
        return np.ones(k)
    t2 = _t_squared(differences, sign_patterns(n))  # (F, k); the first pattern flips nothing
    order = np.argsort(-t2[0], kind="stable")
    t2 = t2[:, order]
    # an arm is held against the largest of itself and those behind it: the ones before are decided already
    largest = np.maximum.accumulate(t2[:, ::-1], axis=1)[:, ::-1]
    p = (largest >= t2[0] * (1 - 1e-9)).mean(axis=0)  # a rounding error must not break a tie
    corrected = np.empty(k)
    corrected[order] = np.maximum.accumulate(p)
    return corrected


def _t_squared(differences: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """(F, k) squares of Student's t. Flipping signs changes the sum alone, not the sum of squares."""
    there = np.isfinite(differences)
    d = np.where(there, differences, 0.0)
    scale = np.abs(d).max(axis=0)
    d = d / np.where(scale > 0, scale, 1.0)  # tiny differences must not vanish when squared
    count, squares = there.sum(axis=0), (d**2).sum(axis=0)
    share = (patterns @ d) ** 2 / np.where(squares > 0, count * squares, 1.0)  # 0 … 1: one where all agree
    share[share < 1e-18] = 0.0  # a sum of nothing but rounding errors
    rest = np.clip(1 - share, 0.0, None)
    rest[rest < 1e-12] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(count > 1, (count - 1) * share / rest, 0.0)


@lru_cache(maxsize=32)
def sign_patterns(n: int) -> np.ndarray:
    """(F, n) of ±1, the one that flips nothing first. A pattern and its opposite give the same |t|, so the first sign
    is always +."""
    if n <= EXACT_PAIRS:
        return np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])
    drawn = np.random.default_rng(n).choice([1.0, -1.0], size=(min(DRAWS, 20_000_000 // n), n))
    drawn[0] = 1.0
    return drawn


# -- how much so many pairs can see ------------------------------------------------------------------------------------


def power(effect: float, pairs: int, arms: int = 1, correlation: float = 0.5) -> float:
    """The chance that an effect, in standard deviations of the differences, is called real: normal noise, the other
    arms without effect. Arms that share a control have differences correlated by about a half."""
    if arms < 1:
        raise InputError(f"at least one arm is compared, not {arms}")
    if pairs < LEAST_PAIRS:
        return 0.0
    effect = min(abs(effect), 1e6)
    if pairs <= 11:  # p-values come in coarse steps; beyond, Student's t is right to a point
        return float(np.mean(_called_real(_noise(pairs, arms, correlation) + _at_first(effect, arms))))
    shift, limit = effect * math.sqrt(pairs), _limit(pairs, arms, correlation) * _sds(pairs)
    return float(np.mean(special.ndtr(shift - limit) + special.ndtr(-shift - limit)))


@lru_cache(maxsize=256)
def _sds(pairs: int) -> np.ndarray:
    """Standard deviations that so many normal values may have, evenly likely."""
    return np.sqrt(2 * special.gammaincinv((pairs - 1) / 2, (np.arange(500) + 0.5) / 500) / (pairs - 1))


def _at_first(effect: float, arms: int) -> np.ndarray:
    return np.array([effect] + [0.0] * (arms - 1))


@lru_cache(maxsize=32)
def _noise(pairs: int, arms: int, correlation: float) -> np.ndarray:
    """(draws, n, k), always the same."""
    draws = 10_000 if arms == 1 else max(500, 12_000 // arms)
    make = np.random.default_rng([pairs, arms])
    shared, own = make.standard_normal((draws, pairs, 1)), make.standard_normal((draws, pairs, arms))
    return math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own


def _called_real(d: np.ndarray) -> np.ndarray:
    """(draws,) whether the first arm of (draws, n, k) is: the rule of `_verdict`, for many studies at once."""
    draws, n, k = d.shape
    squares = (d**2).sum(axis=1)  # (draws, k)
    sums = d.sum(axis=1)
    share = sums**2 / (n * squares)
    beyond = np.zeros(draws)
    patterns = sign_patterns(n)
    for part in np.array_split(np.arange(draws), max(1, draws * len(patterns) * k // 4_000_000)):
        flipped = np.einsum("fn,snk->sfk", patterns, d[part], optimize=True) ** 2 / (n * squares[part, None])
        # with no arm taken out first, as step-down would: the others have no effect here
        beyond[part] = (flipped.max(axis=2) >= share[part, :1] * (1 - 1e-9)).mean(axis=1)
    t2 = (n - 1) * share[:, 0] / np.maximum(1 - share[:, 0], 1e-300)
    return (beyond <= ALPHA) & (t2 > t_quantile(1 - ALPHA / 2, n) ** 2)


@lru_cache(maxsize=256)
def _limit(pairs: int, arms: int, correlation: float) -> float:
    """The |t| that the largest of k null arms exceeds once in twenty."""
    if arms == 1 or arms > 8 or pairs > 40:
        return t_quantile(float(special.ndtr(_normal_limit(arms, correlation))), pairs)
    make = np.random.default_rng([pairs, arms])
    shared, own = make.standard_normal((20_000, pairs, 1)), make.standard_normal((20_000, pairs, arms))
    d = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
    t = np.abs(d.mean(axis=1)) / d.std(axis=1, ddof=1) * math.sqrt(pairs)
    return float(np.quantile(t.max(axis=1), 1 - ALPHA))


@lru_cache(maxsize=64)
def _normal_limit(arms: int, correlation: float) -> float:
    """The same for as many pairs as anyone likes."""
    if arms == 1:
        return float(special.ndtri(1 - ALPHA / 2))
    make = np.random.default_rng(arms)
    shared, own = make.standard_normal((100_000, 1)), make.standard_normal((100_000, arms))
    z = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own
    return float(np.quantile(np.abs(z).max(axis=1), 1 - ALPHA))


@lru_cache(maxsize=256)
def detectable(pairs: int, arms: int = 1, chance: float = 0.8) -> float:
    """The smallest effect, in standard deviations of the differences, that is called real with that chance."""
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
    """The fewest pairs that see an effect, in standard deviations of the differences; none: more than anyone has."""
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
    """The fewest pairs that call two arms equivalent which are: `margin` in standard deviations of the differences."""
    if not margin > 0:
        return None
    for n in itertools.chain(range(LEAST_PAIRS, 200), range(200, MOST_PAIRS, 50)):
        room = margin * math.sqrt(n) - t_quantile(0.95, n) * _sds(n)  # for the mean, in standard errors
        if np.clip(2 * special.ndtr(room) - 1, 0, None).mean() >= chance:
            return n
    return None


# -- items: other texts, these checkpoints -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ItemTest:
    """Would other texts have said the same of these very checkpoints? It says nothing about other seeds."""

    difference: float  # mean over items, variant − control
    low: float
    high: float
    items: int
    clusters: int
    p: float | None = None  # exact McNemar, for right and wrong


def mcnemar(control: ArrayLike, variant: ArrayLike) -> float:
    """Exact p of two classifiers on the same items, given whether each was right: only items they disagree on count."""
    a, b = np.asarray(control, dtype=bool), np.asarray(variant, dtype=bool)
    if a.shape != b.shape:
        raise InputError(f"the classifiers were asked about {a.size} and {b.size} items: they must be the same")
    gained, lost = int((~a & b).sum()), int((a & ~b).sum())
    disputed = gained + lost
    ways = total = 1  # of choosing i items of those in dispute, exactly; and of choosing at most i
    for i in range(1, min(gained, lost) + 1):
        ways = ways * (disputed - i + 1) // i
        total += ways
    return min(1.0, 2 * total / 2**disputed)


def over_items(
    differences: ArrayLike, weights: ArrayLike | None = None, clusters: ArrayLike | None = None, draws: int = 2000
) -> ItemTest:
    """The weighted mean difference over items and its 95 % interval by resampling whole clusters, such as documents:
    items of one document are no independent witnesses."""
    d = _values("differences", differences)
    w = np.ones_like(d) if weights is None else _values("weights", weights)
    c = np.arange(len(d)) if clusters is None else np.unique(np.asarray(clusters).ravel(), return_inverse=True)[1]
    if not len(d) == len(w) == len(c) or len(d) == 0:
        raise InputError("differences, weights and clusters must be lists of one length, at least one item")
    if np.isnan(d).any() or not (w >= 0).all() or not w.sum() > 0:
        raise InputError("every item needs a difference and a weight of zero or more, and not all may weigh nothing")
    count = int(c.max()) + 1
    top, bottom = np.bincount(c, d * w, count), np.bincount(c, w, count)
    picks = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=draws)  # (draws, clusters)
    means = (picks @ top) / np.maximum(picks @ bottom, np.finfo(float).tiny)
    low, high = np.quantile(means, [0.025, 0.975]) if count > 1 else (-math.inf, math.inf)
    return ItemTest(float(top.sum() / bottom.sum()), float(low), float(high), len(d), count)
