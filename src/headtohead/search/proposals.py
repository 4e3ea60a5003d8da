"""Which points to try: all points of a grid, or those that Optuna's TPE proposes."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from headtohead.errors import needs_extra
from headtohead.outcome.metrics import better_way
from headtohead.search.space import Axis, Choices, Point, Search

REPEATS = 20  # of points that were tried already, before one is drawn at random and not rounded


def propose(search: Search) -> Generator[list[Point], list[float | None], None]:
    """Yield lists of points to try, and take the value of each point, None if it has none. The proposals depend on
    nothing else: neither on how long trials took nor on how many ran at a time."""
    optuna = _optuna()
    yield from _grid(search, optuna) if search.trials is None else _tpe(search, search.trials, optuna)


def _grid(search: Search, optuna: Any) -> Iterator[list[Point]]:
    """All points at once, in an order drawn from the seed, so that an unfinished search covers the whole grid."""
    space = {axis.path: _distribution(axis, optuna) for axis in search.axes}
    with _quietly(optuna):
        sampler = optuna.samplers.GridSampler({axis.path: axis.to_json() for axis in search.axes}, seed=search.seed)
        study = optuna.create_study(sampler=sampler)
        points = [study.ask(space).params for _ in range(search.count)]
    yield [{path: point[path] for path in space} for point in points]


def _tpe(search: Search, trials: int, optuna: Any) -> Generator[list[Point], list[float | None], None]:
    axes = {axis.path: axis for axis in search.axes}
    space = {path: _distribution(axis, optuna) for path, axis in axes.items()}
    higher = better_way(search.metric) == "higher"
    with _quietly(optuna):
        tpe = optuna.samplers.TPESampler(seed=search.seed, multivariate=True, constant_liar=True)
        at_random = optuna.samplers.RandomSampler(seed=search.seed)
        study = optuna.create_study(sampler=tpe, direction="maximize" if higher else "minimize")
    tried: list[Point] = []

    def fresh() -> Any:
        """Ask for a point that was not tried, because TPE tends to repeat the best of a few choices. There always is
        one: trials are fewer than combinations, and an unrounded range has enough numbers."""
        for times in itertools.count():
            stuck = times >= REPEATS
            study.sampler = at_random if stuck else tpe
            asked = study.ask(space)
            point = asked.params if stuck else {path: _rounded(axes[path], asked.params[path]) for path in space}
            if point not in tried:
                tried.append({path: point[path] for path in space})
                return asked
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        raise AssertionError("count() does not end")

    while len(tried) < trials:
        before = len(tried)
        with _quietly(optuna):
            asked = [fresh() for _ in range(min(search.together, trials - before))]
        values = yield tried[before:]
        with _quietly(optuna):
            for trial, value in zip(asked, values, strict=True):  # without a value: the worst one
                study.tell(trial, value if value is not None else -math.inf if higher else math.inf)


def _distribution(axis: Axis, optuna: Any) -> Any:
    if isinstance(axis, Choices):
        return optuna.distributions.CategoricalDistribution(axis.texts)
    if axis.whole:
        return optuna.distributions.IntDistribution(axis.low, axis.high)
    return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.log)


def _rounded(axis: Axis, proposed: Any) -> Any:
    """Round to three digits, which are easier to type and precise enough."""
    if isinstance(axis, Choices) or axis.whole:
        return proposed
    scale = proposed if axis.log else axis.high - axis.low
    return min(max(round(proposed, 2 - math.floor(math.log10(scale))), axis.low), axis.high)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise needs_extra("a search", "tune") from None
    return optuna


@contextmanager
def _quietly(optuna: Any) -> Iterator[None]:
    """Silence Optuna, and restore the user's settings of its messages afterwards."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
