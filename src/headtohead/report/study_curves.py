"""Learning curves of a study: each arm's mean over the seeds at every evaluation, with its range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.errors import InputError
from headtohead.figures.style import WIDTH, columns_of, legend_below, line_look, looks, plain_axes, shortened
from headtohead.outcome.metrics import figure_of
from headtohead.outcome.outcome import Outcome
from headtohead.report import facts
from headtohead.report.number_text import far_off, is_share, joined, short
from headtohead.run.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVE_SEEDS = 12  # of each arm; more would not change the picture
FEWER = 3  # arms with fewer seeds than others that are named
SPREADS = 6  # with more arms the bands of lowest to highest would hide the lines


@dataclass(frozen=True)
class Along:
    """Steps and values (seeds, steps) of every arm with evaluations; shares are in percent."""

    name: str  # such as validation/loss
    percent: bool
    lines: dict[str, tuple[list[int], np.ndarray]]
    numbers: dict[str, int]  # an arm's place in the table, which decides its colour in every figure
    first: int  # the first step that is shown: the loss before training would flatten the rest
    top: float  # of the figure; infinite unless some arm lies far beyond the others
    absent: str  # arms that have no line, and why

    @property
    def seeds(self) -> int:
        """Of each arm at most, as drawn."""
        return max(len(values) for _, values in self.lines.values())

    @property
    def bands(self) -> bool:
        return len(self.numbers) <= SPREADS

    @property
    def beyond(self) -> list[str]:
        """Arms that are cut at the top."""
        return [arm for arm, line in self.lines.items() if (_shown(*line, self.first) > self.top).any()]

    def over_seeds(self, first: bool = False) -> str:
        """over 6 seeds, of Rope 4"""
        counts = {arm: len(values) for arm, (_, values) in self.lines.items()}
        said = f"over {'the first ' if first else ''}{self.seeds} seed{'s' if self.seeds > 1 else ''}"
        fewer = [arm for arm, count in counts.items() if count < self.seeds]
        if len(fewer) > FEWER:
            return f"over {min(counts.values())} to {self.seeds} seeds, as many as each arm has"
        return said + (f", of {joined([f'{arm} {counts[arm]}' for arm in fewer])}" if fewer else "")


def _shown(steps: list[int], values: np.ndarray, first: int) -> np.ndarray:
    return values[:, np.searchsorted(steps, first) :]


def along(outcome: Outcome, title: str) -> Along | None:
    """The curves of the complete runs; None without evaluations during training."""
    figure, name = figure_of(outcome.metric), ""
    arms = [arm.name for arm in outcome.record.table(title).arms]
    percent = is_share(outcome.metric)
    lines, unseen = {}, []
    for arm in arms:
        per_seed: list[dict[int, float]] = []
        done = [row for row in outcome.rows[title, arm] if row.status == "complete"]
        for row in done[:CURVE_SEEDS]:
            try:
                evaluations = Record.at(outcome.home, row.run).metrics
            except InputError:  # a damaged file: the table reports it
                continue
            name = name or _set_watched(evaluations, figure)
            key = f"{name}/{figure}"
            if points := {m["step"]: m[key] for m in evaluations if m.get(key) is not None}:
                per_seed.append(points)
        steps = sorted(set.intersection(*(set(p) for p in per_seed))) if per_seed else []
        if len(steps) > 1:
            lines[arm] = steps, (100 if percent else 1) * np.array([[p[s] for s in steps] for p in per_seed])
        elif done:
            unseen.append(arm)
    if not lines:
        return None
    every = sorted({step for steps, _ in lines.values() for step in steps})
    first = every[0] if percent or len(every) < 3 else every[1]
    shown = {arm: v for arm, line in lines.items() if (v := _shown(*line, first)).size}
    absent = [facts.without_runs(outcome, title)]
    absent += [f"Not drawn: {joined(unseen)}, evaluated less than twice during training."] if unseen else []
    numbers = {arm: n for n, arm in enumerate(arms)}
    top = math.inf if percent else _top(shown)
    return Along(f"{name}/{figure}", percent, lines, numbers, first, top, " ".join(filter(None, absent)))


def _top(shown: dict[str, np.ndarray]) -> float:
    """The upper limit of the figure: arms that diverge would flatten all others."""
    ends = sorted(float(v[:, -1].mean()) for v in shown.values())
    if not ends:
        return math.inf
    middle = ends[(len(ends) - 1) // 2]  # of two the lower
    beyond = far_off({arm: float(abs(v - middle).max()) for arm, v in shown.items()}, abs(middle))
    kept = [v for arm, v in shown.items() if arm not in beyond]
    low, high = min(float(v.min()) for v in kept), max(float(v.max()) for v in kept)
    return high + 0.05 * ((high - low) or abs(high) or 1.0) if beyond else math.inf


def _set_watched(evaluations: list[dict[str, Any]], figure: str) -> str:
    """The set of the curves: validation if there is one, else a watched test set, else training."""
    found = {key.rpartition("/")[0] for line in evaluations for key in line if key.endswith(f"/{figure}")}
    tests = sorted(found - {"validation", "train", "test"})
    return next((name for name in ("validation", "test", *tests, "train") if name in found), "")


def drawing(found: Along) -> Figure:
    """The static figure, for print and without scripts."""
    labels = list(found.lines)
    rows = math.ceil(len(labels) / columns_of(shortened(labels)))
    with looks() as new:
        figure = new(figsize=(WIDTH, 3.4 + 0.21 * rows), layout="constrained")
        axes = figure.subplots()
        handles = []
        for arm, (every, values) in found.lines.items():
            look = line_look(found.numbers[arm])
            steps = [step for step in every if step >= found.first]
            whole = _shown(every, values, found.first)
            mean, shown = np.minimum(whole.mean(axis=0), found.top), np.minimum(whole, found.top)
            handles += axes.plot(steps, mean, lw=2 if found.numbers[arm] == 0 else 1.6, **look)
            if found.bands and steps:
                axes.fill_between(steps, shown.min(axis=0), shown.max(axis=0), color=look["color"], alpha=0.10, lw=0)
            cut = [step for step, value in zip(steps, mean, strict=True) if value == found.top]
            axes.plot(cut, [found.top] * len(cut), "^", color=look["color"], ms=6, clip_on=False)
        axes.set(xlabel="step", ylabel=found.name + (", %" if found.percent else ""))
        plain_axes(axes)
        legend_below(figure, handles, labels)
        return figure


def says(found: Along) -> str:
    """The alternative text of the figure: where every arm ended."""
    ends = [
        f"{arm} {values.mean(axis=0)[-1]:.4g} at step {steps[-1]:,}" for arm, (steps, values) in found.lines.items()
    ]
    told = f"Learning curves, {found.name} by step, mean {found.over_seeds()}. Last evaluation: {'; '.join(ends)}."
    return f"{told} {notes(found)}".strip()


def notes(found: Along) -> str:
    """Notes on what the figure does not show."""
    told = []
    for arm in found.beyond:
        mean = found.lines[arm][1].mean(axis=0)
        told.append(f"{arm}, which reaches {short(float(mean.max()))} and ends at {short(float(mean[-1]))}")
    beyond = f"Beyond the edge, where arrows point: {'; '.join(told)}." if told else ""
    return " ".join(filter(None, (beyond, found.absent)))
