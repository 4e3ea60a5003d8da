"""What an arm costs against what it gives: time a step and FLOPs a step, with every seed's result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headtohead.metrics import text_of
from headtohead.report.facts import Cost
from headtohead.report.figures import (
    ARMS,
    DOTS,
    GRID,
    WIDTH,
    Drawing,
    columns_of,
    is_share,
    legend_below,
    looks,
    shortened,
)

SIDES = (("step_ms", "ms a step, here"), ("flops", "FLOPs a step"))


def drawing(costs: Sequence[Cost], metric: str, better: str) -> Drawing | None:
    """A panel for each kind of cost that is known; none where none is."""
    sides = [(name, label) for name, label in SIDES if any(getattr(c, name) for c in costs)]
    if not sides:
        return None
    scale = 100 if is_share(metric) else 1
    labels = [c.arm for c in costs]
    rows = math.ceil(len(labels) / columns_of(shortened(labels)))
    with looks() as new:
        figure = new(figsize=(WIDTH, 3.2 + 0.21 * rows), layout="constrained")
        panels = figure.subplots(1, len(sides), sharey=True, squeeze=False)[0]
        handles: list[Any] = []
        for axes, (name, label) in zip(panels, sides, strict=True):
            handles = [_arm(axes, c, getattr(c, name), scale) for c in costs]
            axes.set_xlabel(label)
            axes.margins(x=0.12)
            axes.grid(color=GRID)
            axes.spines[["top", "right"]].set_visible(False)
        way = "down" if better == "lower" else "up"
        panels[0].set_ylabel(f"{metric}{', %' if scale == 100 else ''}\n{way} and left is better")
        return Drawing(figure, legend_below(figure, handles, labels))


def _arm(axes: Any, cost: Cost, x: float | None, scale: int) -> Any:
    """The mean as a mark of its own, and a tick for each seed."""
    look: Any = {"color": ARMS[cost.number % len(ARMS)], "marker": DOTS[cost.number % len(DOTS)], "ls": "none"}
    if x is None:
        return axes.plot([], [], ms=8, **look)[0]
    axes.plot([x] * len(cost.values), [scale * v for v in cost.values], "_", color=look["color"], ms=9, alpha=0.5)
    return axes.plot([x], [scale * cost.mean], ms=8, mec="white", mew=0.8, zorder=3, **look)[0]


def says(costs: Sequence[Cost], metric: str) -> str:
    told = [
        f"{c.arm}: {text_of(metric, c.mean)}"
        + (f", {c.step_ms:.3g} ms a step" if c.step_ms else "")
        + (f", {c.flops:.3g} FLOPs a step" if c.flops else "")
        for c in costs
    ]
    return f"Cost against {metric}. {'; '.join(told)}."
