"""A figure against the size of the test sets: accuracy for 2, 4, 8, 16 pairs, or for longer and longer texts.

A synthetic task with test_pairs=(2, 4) has the test sets pairs_2 and pairs_4. One trained model gives a whole curve,
and its seeds give the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.errors import InputError, nearest
from headtohead.figures.style import DOTS, GRID, QUIET, legend_below, line_look, looks, plain_axes, shortened
from headtohead.outcome.metrics import better_way, is_share, text_of
from headtohead.report import curves
from headtohead.report.named_runs import RunGroup, find_groups, kind_of, metric_of
from headtohead.report.text_table import TextTable
from headtohead.run import store
from headtohead.run.store import plain
from headtohead.stats import LEAST_PAIRS, compare_all, interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOLVED = 0.9  # share of right answers from which a size counts as solved


@dataclass(frozen=True)
class Point:
    """One figure of one arm on the test set of one size. The interval is that of the mean over seeds, for this point
    alone."""

    size: float
    values: tuple[float, ...]  # seed by seed
    mean: float
    low: float
    high: float
    against_first: str = ""  # verdict against the first arm, corrected for all arms and sizes; empty for the first arm


@dataclass(frozen=True)
class SizeCurve:
    """The points of one arm, from the smallest size on."""

    label: str
    seeds: tuple[int, ...]
    points: tuple[Point, ...]

    def solved_up_to(self) -> float | None:
        """The largest size up to which every interval lies above the share that counts as solved; none if the first
        does not."""
        found = None
        for point in self.points:
            if point.low < SOLVED:
                break
            found = point.size
        return found


@dataclass(frozen=True)
class SizeCurves:
    """The curves of several arms."""

    over: str  # the knob that names the sets: pairs, length
    metric: str
    task: str
    title: str
    lines: tuple[SizeCurve, ...]
    guess: float | None  # the figure of guessing, where it is known

    def to_json(self) -> dict[str, Any]:
        lines = [{"label": c.label, "seeds": c.seeds, "points": [vars(p) for p in c.points]} for c in self.lines]
        found: dict[str, Any] = plain({"over": self.over, "metric": self.metric, "guess": self.guess, "curves": lines})
        return found

    def table(self) -> TextTable:
        """A row for each size, a column for each arm: mean and interval."""
        rows = [
            [f"{size:g}", *(self._cell(curve, size) for curve in self.lines)]
            for size in dict.fromkeys(point.size for curve in self.lines for point in curve.points)
        ]
        unit = curves.unit_of(self.metric, self.task)
        said = f"{self.metric.replace('_', ' ')} ({unit}), 95 % interval of the mean over seeds"
        return TextTable(f"{said}: {self.title}", [self.over, *(curve.label for curve in self.lines)], rows)

    def _cell(self, curve: SizeCurve, size: float) -> str:
        point = next((p for p in curve.points if p.size == size), None)
        if point is None:
            return "–"
        mean, low, high = (text_of(self._full, x).removesuffix(" %") for x in (point.mean, point.low, point.high))
        return mean if math.isinf(point.high - point.low) else f"{mean} ({low} … {high})"

    @property
    def _full(self) -> str:
        return f"test/{self.metric}"

    def notes(self) -> list[str]:
        """What the curves say, a line for each arm."""
        lines = []
        for n, curve in enumerate(self.lines):
            said = []
            if is_share(self._full):
                up_to = curve.solved_up_to()
                few = " (one seed has no interval)" if len(curve.seeds) < 2 else ""
                level = f"at least {SOLVED:.0%}"
                said.append(f"{level} up to {self.over}={up_to:g}" if up_to is not None else f"nowhere {level}{few}")
            if n:
                said.append(f"against {self.lines[0].label}: {_verdicts(curve)}")
            lines += [f"{curve.label}: {'; '.join(said)}"] if said else []
        return lines

    def text(self, width: int = 80) -> str:
        """Table and notes."""
        notes = [line for note in self.notes() for line in wrap(note, width)]
        return self.table().text(width) + "".join(f"{line}\n" for line in notes)

    def plot(self) -> Figure:
        """A picture: lines of means with their intervals."""
        scale = 100 if is_share(self._full) else 1
        sizes = sorted({point.size for curve in self.lines for point in curve.points})
        with looks() as new:
            figure = new(figsize=(6.4, 3.9), layout="constrained")
            axes = figure.subplots()
            handles = []
            apart = 0.012 * (len(self.lines) > 1)  # so that no interval hides another's
            for n, curve in enumerate(self.lines):
                x = np.array([sizes.index(p.size) for p in curve.points]) + apart * (2 * n - len(self.lines) + 1)
                y = scale * np.array([p.mean for p in curve.points])
                ends = scale * np.array([[p.mean - p.low, p.high - p.mean] for p in curve.points]).T
                look = line_look(n)
                (handle,) = axes.plot(x, y, lw=1.7, marker=DOTS[n % len(DOTS)], ms=4.5, **look, zorder=3)
                if np.isfinite(ends).all():
                    axes.errorbar(x, y, ends, fmt="none", ecolor=look["color"], elinewidth=1.1, capsize=2.5, zorder=2)
                handles.append(handle)
            labels = shortened([curve.label for curve in self.lines], 36)
            if self.guess is not None:
                handles.append(axes.axhline(scale * self.guess, color=QUIET, lw=1.1, ls=":", zorder=1))
                labels.append("guessing")
            unit = curves.unit_of(self.metric, self.task)
            said = self.metric.replace("_", " ")
            axes.set(xlabel=f"{self.over} in the test set", ylabel=f"{said} ({unit})" if unit else said)
            axes.set_xticks(range(len(sizes)), [f"{size:g}" for size in sizes])
            axes.grid(color=GRID)
            plain_axes(axes)
            legend_below(figure, handles, labels)
            figure.suptitle(self.title, fontsize=10, x=0.01, ha="left")
            return figure


def _verdicts(curve: SizeCurve) -> str:
    """worse at 8, 16; unresolved at 2, 4"""
    sizes: dict[str, list[str]] = {}
    for point in curve.points:
        sizes.setdefault(point.against_first, []).append(f"{point.size:g}")
    return "; ".join(f"{word} at {', '.join(where)}" for word, where in sizes.items())


def size_curve(
    *runs: str, over: str | None = None, metric: str | None = None, home: str | Path | None = None
) -> SizeCurves:
    """Read a figure of every test set of one kind: accuracy against the number of pairs, or against the length.

    `runs` are named as for `h2h curves`: a study stands for all of its arms. `over` is the knob that names the test
    sets, `pairs` for pairs_2, pairs_4, …; it can be left out if there is one only.
    """
    return read(find_groups(runs, Path(home) if home else store.home()), over, metric)


def read(groups: Sequence[RunGroup], over: str | None = None, metric: str | None = None) -> SizeCurves:
    """The curves of groups of runs; the first group is what the others are compared with."""
    figure = metric_of(groups, metric)
    values = [_by_size(group, figure) for group in groups]
    known = list(dict.fromkeys(name for found in values for name in found))
    if not known:
        raise InputError(
            "these runs have no test sets of several sizes: train a synthetic task with data.corpus.test_length=(32,64)"
        )
    if over is None and len(known) > 1:
        raise InputError(f"these runs have test sets by {' and by '.join(known)}: give --over {known[0]}")
    over = over or known[0]
    if over not in known:
        raise InputError(f"these runs have no test sets by {over}: {nearest(over, known)}")
    made = [_curve(group, found.get(over, {}), f"test/{figure}") for group, found in zip(groups, values, strict=True)]
    lines = (made[0], *_compared(made[0], made[1:], f"test/{figure}"))
    guesses = [r.result.data.get("guess", {}).get(figure) for g in groups for r in g.records if r.result]
    return SizeCurves(over, figure, kind_of(groups), curves.title(groups, "mean"), lines, guesses[0])


Sizes = dict[float, dict[int, float]]  # size → seed → value


def _by_size(group: RunGroup, figure: str) -> dict[str, Sizes]:
    """The figure of every test set whose name ends in a number, by the first part of the name."""
    found: dict[str, Sizes] = {}
    for record in group.records:
        if record.result is None or not record.result.is_complete:
            continue
        for name in record.result.data["tests"]:
            over, _, number = name.rpartition("_")
            value = record.result.values.get(f"{name}/{figure}")
            if over and _is_number(number) and value is not None:
                found.setdefault(over, {}).setdefault(float(number), {})[int(record.spec["seed"])] = float(value)
    return found


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _curve(group: RunGroup, found: Sizes, metric: str) -> SizeCurve:
    points = []
    for size in sorted(found):
        values = np.array([found[size][seed] for seed in sorted(found[size])])
        low, high = interval(values)
        if is_share(metric) and len(values) > 1:
            low, high = max(0.0, low), min(1.0, high)
        points.append(Point(size, tuple(values.tolist()), float(values.mean()), low, high))
    seeds = sorted({seed for by_seed in found.values() for seed in by_seed})
    return SizeCurve(group.label, tuple(seeds), tuple(points))


def _compared(first: SizeCurve, others: Sequence[SizeCurve], metric: str) -> list[SizeCurve]:
    """The other arms with their verdicts against the first, corrected for all arms and sizes."""
    control = {point.size: dict(zip(first.seeds, point.values, strict=False)) for point in first.points}
    differences: dict[str, list[float]] = {}
    for n, curve in enumerate(others):
        for point in curve.points:
            own, theirs = dict(zip(curve.seeds, point.values, strict=False)), control.get(point.size, {})
            differences[f"{n} {point.size}"] = [own.get(s, math.nan) - theirs.get(s, math.nan) for s in first.seeds]
    if not differences:
        return list(others)
    judged = compare_all([0.0] * len(first.seeds), differences, better=better_way(metric))

    def word(n: int, size: float) -> str:
        verdict = judged[f"{n} {size}"]
        return verdict.verdict if verdict.pairs >= LEAST_PAIRS else f"unresolved ({verdict.pairs} pairs)"

    return [
        SizeCurve(c.label, c.seeds, tuple(Point(**{**vars(p), "against_first": word(n, p.size)}) for p in c.points))
        for n, c in enumerate(others)
    ]
