"""What an effect is worth: as a factor of the control's training, at equal FLOPs, at equal seconds. Imports no torch.

One quantity answers all three. D(k) is the arm's value minus the value of the control trained for k × its steps:

    D(1)               the difference of the verdict
    D(k) = 0           the arm is worth k × the training of the control
    D(ratio of FLOPs)  the difference at equal FLOPs: the control may train as long as the arm's FLOPs last
    D(ratio of times)  the difference at equal seconds

The values of the control at other lengths come from separate runs, each with its complete schedule (study/lengths.py).
A point in the middle of a run is no substitute: its learning rate has not been annealed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy  # scipy.special is imported when first used

from headtohead.errors import InputError
from headtohead.outcome.metrics import value_of
from headtohead.run.store import Record
from headtohead.stats import interval, t_quantile

if TYPE_CHECKING:
    from headtohead.outcome.outcome import Outcome, RunRow

LEVEL = 0.95
APART = 1800  # seconds: runs that ended further apart met different loads of the machine
NO_LENGTHS = "the control was trained at one length only: add --equivalents"
GRID = 400  # points of log k between the shortest and the longest control


@dataclass(frozen=True)
class Ratio:
    """Time per step of an arm as a multiple of the control's: the geometric mean of the pairs, with its interval."""

    value: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True)
class Shifted:
    """The difference between an arm and the control after `factor` × the control's steps, with its interval."""

    factor: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Worth:
    """What an arm is worth. A bound that is None lies beyond the lengths of the control that were trained."""

    factor: float | None  # of the control's training steps that reaches the arm's value
    low: float | None
    high: float | None
    reach: tuple[float, float] | None  # the shortest and the longest control, as factors
    beyond: Literal["", "above", "below"]  # where the factor lies if it is outside the reach
    at_equal_flops: Shifted | None
    at_equal_seconds: Shifted | None
    flops: float | None  # of a step, as a multiple of the control's; exact
    time: Ratio | None
    seeds: tuple[int, ...]  # on which the control was trained at other lengths
    why: str  # why there is no factor

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


# -- the control's value at other lengths ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lengths:
    """The control's change of value at other lengths: `gains` (seeds, factors), value(factor) − value(1)."""

    seeds: tuple[int, ...]
    factors: tuple[float, ...]
    gains: np.ndarray

    @cached_property
    def coefficients(self) -> np.ndarray:
        """b and c (seeds, 2) of the gain b·x + c·x² at log factor x. The parabola passes through the gains of two
        lengths; it is a straight line for one length, and fitted by least squares to more."""
        powers = np.arange(1, min(2, len(self.factors)) + 1)
        design = np.log(self.factors)[:, None] ** powers
        found = self.gains @ np.linalg.pinv(design).T
        return np.pad(found, ((0, 0), (0, 2 - found.shape[1])))

    def gain(self, x: np.ndarray) -> np.ndarray:
        """The gain (seeds, x) at log factors x."""
        return self.coefficients @ np.array([x, x * x])

    def slope(self, x: float) -> float:
        """The derivative of the mean gain with respect to log factor."""
        return float(self.coefficients.mean(axis=0) @ np.array([1.0, 2 * x]))

    def reach(self, better: str) -> tuple[float, float] | None:
        """The log factors around 0 within which more training improves the mean; None if it does not at 0."""
        ends = [min(0.0, *np.log(self.factors)), max(0.0, *np.log(self.factors))]
        way = -1.0 if better == "lower" else 1.0
        here, low, high = way * self.slope(0.0), way * self.slope(ends[0]), way * self.slope(ends[1])
        if here <= 0:
            return None
        # the slope of a parabola is a straight line: it is zero where the control is at its best or worst
        if low < 0:
            ends[0] *= here / (here - low)
        if high < 0:
            ends[1] *= here / (here - high)
        return ends[0], ends[1]


def lengths_of(base: Mapping[int, float], longer: Mapping[float, Mapping[int, float]]) -> Lengths | None:
    """The gains of the seeds that have every length; None if fewer than two have. `base` is the control by seed,
    `longer` the same at each factor of its steps."""
    seeds = [s for s in base if longer and all(s in values for values in longer.values())]
    seeds = [s for s in seeds if all(math.isfinite(v[s]) for v in (base, *longer.values()))]
    if len(seeds) < 2:
        return None
    factors = tuple(sorted(longer))
    gains = np.array([[longer[k][s] - base[s] for k in factors] for s in seeds])
    return Lengths(tuple(seeds), factors, gains)


# -- D(k) --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """D(k) of one arm, with Student's t interval: `pairs` are the differences at equal steps, by seed."""

    pairs: Mapping[int, float]
    lengths: Lengths

    @cached_property
    def values(self) -> np.ndarray:
        return np.array(list(self.pairs.values()))

    @cached_property
    def same_seeds(self) -> bool:
        """Whether every pair has the control at all lengths, so that D(k) is known pair by pair."""
        return set(self.pairs) == set(self.lengths.seeds)

    def at(self, x: np.ndarray, noise: tuple[float, int] | None = None) -> np.ndarray:
        """D, its lower and its upper bound (3, x) at log factors x. `noise` is the squared standard error of x and its
        number of pairs."""
        gains = self.lengths.gain(x)
        if self.same_seeds:
            order = [self.lengths.seeds.index(seed) for seed in self.pairs]
            each = self.values[:, None] - gains[order]
            mean, terms = each.mean(axis=0), [_squared_error(each)]
        else:  # fewer seeds than pairs: the two errors add, as if they were independent
            mean = self.values.mean() - gains.mean(axis=0)
            terms = [_squared_error(np.repeat(self.values[:, None], len(x), axis=1)), _squared_error(gains)]
        if noise is not None:
            slope = np.array([self.lengths.slope(float(one)) for one in x])
            terms.append((slope**2 * noise[0], noise[1]))
        half = _half_width(terms)
        return np.array([mean, mean - half, mean + half])


Term = tuple[np.ndarray, int]  # squared standard errors of means, and the number of values in each mean


def _squared_error(values: np.ndarray) -> Term:
    return values.var(axis=0, ddof=1) / len(values), len(values)


def _half_width(terms: Sequence[Term]) -> np.ndarray:
    """Half the interval of a sum of independent means, with Welch's degrees of freedom."""
    total = sum((square for square, _ in terms), np.zeros(1))
    spread = sum((square**2 / (n - 1) for square, n in terms), np.zeros(1))
    freedom = np.divide(total**2, spread, out=np.ones_like(total), where=spread > 0)
    return np.asarray(scipy.special.stdtrit(freedom, (1 + LEVEL) / 2) * np.sqrt(total))


def equivalent(difference: Difference, better: str) -> tuple[float, float | None, float | None] | str:
    """The factor k with D(k) = 0 and the bounds between which D(k) does not differ from 0, or why there is none.

    The factor is infinite, or zero, if it lies beyond the lengths. The bounds invert the t interval of D, so they are
    as certain as that interval, and they stay open where the lengths do not reach far enough.
    """
    reach = difference.lengths.reach(better)
    if reach is None:
        return "more training does not improve the control here"
    way = 1.0 if better == "lower" else -1.0  # way · D(k) rises with k: a control trained longer is harder to beat
    xs = np.linspace(*reach, GRID)
    lower, mean, upper = np.sort(way * difference.at(xs), axis=0)
    low, high = _crossing(xs, upper), _crossing(-xs[::-1], -lower[::-1])
    low, high = (None if low is None else math.exp(low)), (None if high is None else math.exp(-high))
    if mean[0] > 0:
        return 0.0, None, high
    if mean[-1] < 0:
        return math.inf, low, None
    middle = _crossing(xs, mean)
    return math.exp(xs[0] if middle is None else middle), low, high


def _crossing(xs: np.ndarray, values: np.ndarray) -> float | None:
    """Where the values first reach zero: the last x if they never do, None if the first value has already."""
    reached = np.flatnonzero(values >= 0)
    if not len(reached):
        return float(xs[-1])
    n = int(reached[0])
    if n == 0:
        return None
    a, b = float(values[n - 1]), float(values[n])
    return float(xs[n - 1] + (xs[n] - xs[n - 1]) * -a / (b - a))


# -- cost --------------------------------------------------------------------------------------------------------------


def time_share(both: Iterable[tuple[RunRow, RunRow]]) -> float | None:
    """How much more time per step the variants take, as a share of the controls': the value of `time_ratio`, which is
    known from one pair on."""
    logs = _time_logs(both)
    return math.exp(logs.mean()) - 1 if len(logs) else None


def _time_logs(both: Iterable[tuple[RunRow, RunRow]]) -> np.ndarray:
    near = ((c, v) for c, v in both if abs(c.finished - v.finished) < APART)
    return np.array([math.log(v.step_ms / c.step_ms) for c, v in near if c.step_ms and v.step_ms])


def time_ratio(both: Iterable[tuple[RunRow, RunRow]]) -> Ratio | None:
    """Time per step of the variants as a multiple of the controls', from pairs that ended within half an hour."""
    logs = _time_logs(both)
    if len(logs) < 2:
        return None
    low, high = interval(logs, LEVEL)
    return Ratio(math.exp(logs.mean()), math.exp(low), math.exp(high), len(logs))


def _noise(ratio: Ratio) -> tuple[float, int]:
    """The squared standard error of the log ratio, and its number of pairs."""
    half = math.log(ratio.high / ratio.value)
    return (half / t_quantile((1 + LEVEL) / 2, ratio.pairs)) ** 2, ratio.pairs


def _shifted(
    difference: Difference, factor: float, reach: tuple[float, float] | None, noise: tuple[float, int] | None = None
) -> Shifted | None:
    """The difference after `factor` × the control's steps; None beyond the lengths that were trained."""
    x = math.log(factor)
    if x and (reach is None or not reach[0] <= x <= reach[1]):
        return None
    mean, low, high = map(float, difference.at(np.array([x]), noise)[:, 0])
    return Shifted(factor, mean, low, high)


# -- from the store ----------------------------------------------------------------------------------------------------


def read_lengths(outcome: Outcome, title: str) -> Lengths | None:
    """The control at other lengths, as far as the store has it."""
    control = outcome.record.table(title).control
    base = {row.seed: row for row in outcome.rows[title, control.name] if row.status == "complete"}
    longer: dict[float, dict[int, float]] = {}
    for runs in outcome.record.lengths.values():
        for seed, run in runs.items():
            steps, value = _end(Record.at(outcome.home, run), outcome.metric)
            if steps and seed in base:
                longer.setdefault(steps / (base[seed].steps or math.nan), {})[seed] = value
    return lengths_of({seed: row.value for seed, row in base.items()}, longer)


def _end(record: Record, metric: str) -> tuple[int, float]:
    """Steps and value of a complete run; zero steps for any other."""
    try:
        result = record.result if record.exists else None
        return (result.steps, value_of(result, metric)) if result and result.is_complete else (0, math.nan)
    except (InputError, KeyError, TypeError, ValueError):  # a damaged file counts as a run that is missing
        return 0, math.nan


def worth(both: Sequence[tuple[RunRow, RunRow]], lengths: Lengths | None, better: str) -> Worth | None:
    """What an arm is worth, from its pairs (control, arm) and the control's lengths; None with fewer than two pairs."""
    pairs = {c.seed: v.value - c.value for c, v in both}
    if len(pairs) < 2:
        return None
    time = time_ratio(both)
    flops = _only(v.flops / c.flops for c, v in both if c.flops and v.flops)
    steps = _only(v.steps / c.steps for c, v in both if c.steps and v.steps)  # not 1 in a study of the steps
    if lengths is None:
        values = np.array(list(pairs.values()))
        equal = flops is not None and flops * (steps or math.nan) == 1  # then the verdict is at equal FLOPs
        at_flops = Shifted(1.0, float(values.mean()), *interval(values, LEVEL)) if equal else None
        return Worth(None, None, None, None, "", at_flops, None, flops, time, (), NO_LENGTHS)
    difference = Difference(pairs, lengths)
    reach = lengths.reach(better)
    at_flops = _shifted(difference, flops * steps, reach) if flops and steps else None
    at_seconds = _shifted(difference, time.value * steps, reach, _noise(time)) if time and steps else None
    found = equivalent(difference, better)
    ends = None if reach is None else (math.exp(reach[0]), math.exp(reach[1]))
    if isinstance(found, str):
        return Worth(None, None, None, ends, "", at_flops, at_seconds, flops, time, lengths.seeds, found)
    factor, low, high = found
    beyond: Literal["", "above", "below"] = "above" if factor == math.inf else "below" if factor == 0 else ""
    said = None if beyond else factor
    return Worth(said, low, high, ends, beyond, at_flops, at_seconds, flops, time, lengths.seeds, "")


def _only(values: Iterable[float]) -> float | None:
    """The value that all pairs share; None if they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def columns(found: Worth | None) -> dict[str, float | None]:
    """The figures of a frame: the factor, its bounds, and the differences at equal FLOPs and seconds."""
    if found is None:
        return {}
    flops, seconds, time = found.at_equal_flops, found.at_equal_seconds, found.time
    return {
        "worth": found.factor,
        "worth_low": found.low,
        "worth_high": found.high,
        "at_equal_flops": flops.difference if flops else None,
        "at_equal_seconds": seconds.difference if seconds else None,
        "time_low": time.low - 1 if time else None,
        "time_high": time.high - 1 if time else None,
    }
