"""Cost against quality of each arm: time and FLOPs of a step, with every seed's result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headtohead.figures.style import ARMS, DOTS, WIDTH, columns_of, legend_below, looks, plain_axes, shortened
from headtohead.outcome.equivalents import Shifted
from headtohead.outcome.metrics import text_of
from headtohead.outcome.outcome import Verdicts
from headtohead.outcome.wording import time_text
from headtohead.outcome.worth_text import factor_text, shifted_text
from headtohead.report.facts import Cost
from headtohead.report.number_text import far_off, is_share, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDES = (("step_ms", "ms a step, here"), ("flops", "FLOPs a step"))


def drawing(costs: Sequence[Cost], metric: str, better: str) -> Figure | None:
    """A panel for each kind of cost that is known; None if none is."""
    sides = [(name, label) for name, label in SIDES if any(getattr(c, name) for c in costs)]
    if not sides:
        return None
    scale = 100 if is_share(metric) else 1
    labels = [c.arm for c in costs]
    beyond = _beyond(costs, better)
    seen = [scale * v for c in costs if c.arm not in beyond for v in c.values]
    low, high = (min(seen), max(seen)) if beyond else (-math.inf, math.inf)
    room = (0.08 * (high - low) or 0.01 * abs(high) or 1.0) if beyond else 0.0
    rows = math.ceil(len(labels) / columns_of(shortened(labels)))
    with looks() as new:
        figure = new(figsize=(WIDTH, 3.2 + 0.21 * rows), layout="constrained")
        panels = figure.subplots(1, len(sides), sharey=True, squeeze=False)[0]
        handles: list[Any] = []
        for axes, (name, label) in zip(panels, sides, strict=True):
            handles = [_arm(axes, c, getattr(c, name), scale, low - room, high + room) for c in costs]
            axes.set_xlabel(label)
            axes.margins(x=0.12)
            if beyond:
                axes.set_ylim(low - 1.5 * room, high + 1.5 * room)
            plain_axes(axes)
        way = "down" if better == "lower" else "up"
        panels[0].set_ylabel(f"{metric}{', %' if scale == 100 else ''}\n{way} and left is better")
        legend_below(figure, handles, labels)
        return figure


def _arm(axes: Any, cost: Cost, x: float | None, scale: int, low: float, high: float) -> Any:
    """Draw the mean as a mark and each seed as a tick; values beyond the limits are arrows at the edge."""
    colour, mark = ARMS[cost.number % len(ARMS)], DOTS[cost.number % len(DOTS)]
    (handle,) = axes.plot([], [], mark, ms=8, color=colour)
    if x is None:
        return handle

    def draw(y: float, mark: str, **look: Any) -> None:
        mark = "v" if y < low else "^" if y > high else mark
        axes.plot([x], [min(max(y, low), high)], mark, color=colour, **look)

    for value in cost.values:
        draw(scale * value, "_", ms=9 if low <= scale * value <= high else 4, alpha=0.5)
    mean = scale * cost.mean
    draw(mean, mark, ms=8, mec="white", mew=0.8, zorder=3)
    if not low <= mean <= high:
        beside: Any = {"textcoords": "offset points", "va": "center", "color": colour}
        axes.annotate(short(mean), (x, high if mean > high else low), (8, 0), **beside)
    return handle


def _beyond(costs: Sequence[Cost], better: str) -> set[str]:
    """Arms whose results are so far off that all others would be one line, measured from the median arm."""
    middle = sorted((c.mean for c in costs), reverse=better == "higher")[(len(costs) - 1) // 2]
    return far_off({c.arm: max(abs(v - middle) for v in c.values) for c in costs}, abs(middle))


def beyond_text(costs: Sequence[Cost], metric: str, better: str) -> str:
    """The values of arms beyond the edge, as text."""
    beyond = [c for c in costs if c.arm in _beyond(costs, better)]
    told = [f"{c.arm} at {text_of(metric, c.mean) if is_share(metric) else short(c.mean)}" for c in beyond]
    return f"Beyond the edge, where arrows point: {'; '.join(told)}." if told else ""


def says(costs: Sequence[Cost], metric: str, better: str) -> str:
    told = [
        f"{c.arm}: {text_of(metric, c.mean)}"
        + (f", {c.step_ms:.3g} ms a step" if c.step_ms else "")
        + (f", {c.flops:.3g} FLOPs a step" if c.flops else "")
        for c in costs
    ]
    return f"Cost against {metric}. {'; '.join(told)}. {beyond_text(costs, metric, better)}".strip()


class WorthRow(NamedTuple):
    """The texts of one arm's row in the table of differences at equal cost."""

    arm: str
    steps: str  # the difference at equal steps, which the verdict is about
    flops: str
    seconds: str
    time: str  # per step
    worth: str  # in training of the control; empty if the control has one length only


def worths(verdicts: Verdicts) -> list[WorthRow]:
    """The differences of each arm at equal steps, FLOPs and seconds, and its worth in training of the control."""
    rows = []
    for row in verdicts:
        w, v, metric = row.worth, row.verdict, verdicts.metric
        if w is None:
            continue
        equal = (Shifted(1.0, v.difference, v.alone_low, v.alone_high), w.at_equal_flops, w.at_equal_seconds)
        steps, flops, seconds = (shifted_text(shifted, metric) for shifted in equal)
        worth = factor_text(w, metric) if w.seeds else ""
        rows.append(WorthRow(row.arm, steps, flops, seconds, time_text(row), worth))
    return rows
