"""How a study's arms learned: the figure along the way, the mean over the seeds of each arm and the spread of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from headtohead.errors import InputError
from headtohead.metrics import figure_of
from headtohead.outcome import Outcome
from headtohead.report.figures import (
    GRID,
    WIDTH,
    Drawing,
    columns_of,
    is_share,
    legend_below,
    line_look,
    looks,
    shortened,
)
from headtohead.store import Record

CURVE_SEEDS = 12  # of each arm; more would not change the picture
SPREADS = 6  # with more arms the bands of lowest to highest would hide the lines


@dataclass(frozen=True)
class Along:
    """Steps and values (seeds, steps) of every arm that has any, in percent where people read it so."""

    name: str  # such as validation/loss
    percent: bool
    lines: dict[str, tuple[list[int], np.ndarray]]
    numbers: dict[str, int]  # an arm's place in the table, by which it looks the same in every figure
    seeds: int  # of each arm at most, as drawn

    @property
    def bands(self) -> bool:
        return len(self.numbers) <= SPREADS

    @property
    def first(self) -> int:
        """The step to begin with: the untrained start of a loss would press all the rest together."""
        steps = sorted({step for steps, _ in self.lines.values() for step in steps})
        return steps[0] if self.percent or len(steps) < 3 else steps[1]


def along(outcome: Outcome, title: str) -> Along | None:
    """Of the complete runs; none where nothing was looked at on the way."""
    figure, name = figure_of(outcome.metric), ""
    table = next(t for t in outcome.said["tables"] if t["title"] == title)
    scale = 100 if is_share(outcome.metric) else 1
    lines: dict[str, tuple[list[int], np.ndarray]] = {}
    for arm in table["arms"]:
        per_seed: list[dict[int, float]] = []
        done = [row for row in outcome.rows[title, arm["name"]] if row.status == "complete"]
        for row in done[:CURVE_SEEDS]:
            looked = _looks(outcome, row.run)
            name = name or _set_watched(looked, figure)
            points = {m["step"]: scale * m[f"{name}/{figure}"] for m in looked if m.get(f"{name}/{figure}") is not None}
            if points:
                per_seed.append(points)
        steps = sorted(set.intersection(*(set(p) for p in per_seed))) if per_seed else []
        if len(steps) > 1:
            lines[arm["name"]] = steps, np.array([[p[s] for s in steps] for p in per_seed])
    if not lines:
        return None
    seeds = max(len(values) for _, values in lines.values())
    numbers = {arm["name"]: n for n, arm in enumerate(table["arms"])}
    return Along(f"{name}/{figure}", scale == 100, lines, numbers, seeds)


def _set_watched(looked: list[dict[str, Any]], figure: str) -> str:
    """Validation where there is one, else a test set that was watched as a published curve's was, else training."""
    found = {key.rpartition("/")[0] for line in looked for key in line if key.endswith(f"/{figure}")}
    tests = sorted(found - {"validation", "train", "test"})
    return next((name for name in ("validation", "test", *tests, "train") if name in found), "")


def _looks(outcome: Outcome, run: str) -> list[dict[str, Any]]:
    try:
        return Record(outcome.home / "runs" / run).metrics
    except InputError:  # torn: a line fewer, and the table says what matters
        return []


def drawing(found: Along) -> Drawing:
    """For print, and where no script runs."""
    lines, labels = found.lines, list(found.lines)
    rows = math.ceil(len(lines) / columns_of(shortened(labels)))
    with looks() as new:
        figure = new(figsize=(WIDTH, 3.4 + 0.21 * rows), layout="constrained")
        axes = figure.subplots()
        for arm, (steps, values) in lines.items():
            look = line_look(found.numbers[arm])
            axes.plot(steps, values.mean(axis=0), lw=2 if found.numbers[arm] == 0 else 1.6, **look)
            if found.bands:
                spread = values.min(axis=0), values.max(axis=0)
                axes.fill_between(steps, *spread, color=look["color"], alpha=0.10, lw=0)
        handles = list(axes.lines)
        axes.set_ylim(*_limits(found))
        axes.set_xlabel("step")
        axes.set_ylabel(found.name + (", %" if found.percent else ""))
        axes.grid(color=GRID)
        axes.spines[["top", "right"]].set_visible(False)
        return Drawing(figure, legend_below(figure, handles, labels))


def _limits(found: Along) -> tuple[float | None, float | None]:
    if found.percent:
        return None, None
    low = min(float(values.min()) for _, values in found.lines.values())
    top = max(float(values.mean(axis=0)[min(1, len(steps) - 1)]) for steps, values in found.lines.values())
    room = (top - low) or abs(low) or 1.0
    return low - 0.03 * room, top + 0.08 * room


def says(found: Along) -> str:
    """The figure in words: where every arm ended."""
    ends = [
        f"{arm} {values.mean(axis=0)[-1]:.4g} at step {steps[-1]:,}" for arm, (steps, values) in found.lines.items()
    ]
    return f"Learning curves, {found.name} by step, mean over {found.seeds} seeds. Last look: {'; '.join(ends)}."
