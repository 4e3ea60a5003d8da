"""Which points to try: all of a grid, or what Optuna's TPE promises itself most of."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from headtohead.errors import Unavailable
from headtohead.metrics import better_way
from headtohead.search.space import Axis, Choices, Point, Search

REPEATS = 20  # proposals of what was tried already, before one is drawn at random and left unrounded


def propose(search: Search) -> Generator[list[Point], list[float | None], None]:
    """Points to try, some at a time; wants to be sent the figure of each, none where there is none. Nothing else
    decides what comes next: not how long trials took, nor how many ran side by side."""
    optuna = _optuna()
    yield from _grid(search, optuna) if search.trials is None else _tpe(search, search.trials, optuna)


def _grid(search: Search, optuna: Any) -> Iterator[list[Point]]:
    """All at once, in an order drawn by the seed: whatever part of them is done tells of the whole."""
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
        """TPE likes to repeat the best of a few choices, which would teach nothing. There is always something left:
        trials are fewer than combinations, and a range has no end of numbers where they are not rounded."""
        for times in itertools.count():
            stuck = times >= REPEATS
            study.sampler = at_random if stuck else tpe
            asked = study.ask(space)
            point = asked.params if stuck else {path: _rounded(axes[path], asked.params[path]) for path in space}
            if point not in tried:
                tried.append({path: point[path] for path in space})
                return asked
            study.tell(asked, state=optuna.trial.TrialState.FAIL)
        raise AssertionError("counting has no end")

    while len(tried) < trials:
        before = len(tried)
        with _quietly(optuna):
            asked = [fresh() for _ in range(min(search.together, trials - before))]
        figures = yield tried[before:]
        with _quietly(optuna):
            for one, figure in zip(asked, figures, strict=True):  # without a figure: as bad as can be
                study.tell(one, figure if figure is not None else -math.inf if higher else math.inf)


def _distribution(axis: Axis, optuna: Any) -> Any:
    if isinstance(axis, Choices):
        return optuna.distributions.CategoricalDistribution(axis.said)
    if axis.whole:
        return optuna.distributions.IntDistribution(axis.low, axis.high)
    return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.log)


def _rounded(axis: Axis, proposed: Any) -> Any:
    """To three digits: more would not matter, and would have to be typed."""
    if isinstance(axis, Choices) or axis.whole:
        return proposed
    scale = proposed if axis.log else axis.high - axis.low
    return min(max(round(proposed, 2 - math.floor(math.log10(scale))), axis.low), axis.high)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise Unavailable("a search needs Optuna: pip install 'headtohead[tune]'") from None
    return optuna


@contextmanager
def _quietly(optuna: Any) -> Iterator[None]:
    """Without a word of Optuna's, whose own settings stay the user's."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
