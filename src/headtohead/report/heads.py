"""A figure of the same heads of several arms over training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.figures.style import INK, WIDTH, legend_below, line_look, looks, plain_axes
from headtohead.report.findings import Evolved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURES = {"entropy": "entropy, nats", "distance": "distance, tokens", "previous": "on the one before"}


def drawing(found: Sequence[Evolved]) -> Figure:
    """A row for each head, a column for each measure, a line for each arm with the range of its seeds."""
    heads = found[0].heads
    with looks() as new:
        figure = new(figsize=(WIDTH, 1.45 * len(heads) + 1.1), layout="constrained")
        panels: Any = figure.subplots(len(heads), len(MEASURES), squeeze=False, sharex=True)
        handles = []
        for arm in found:
            look = line_look(arm.number)
            for row, column in np.ndindex(panels.shape):
                v = arm.values[list(MEASURES)[column]][:, :, row]  # (steps, seeds)
                axes = panels[row, column]
                (line,) = axes.plot(arm.steps, v.mean(axis=1), lw=1.5, **look)
                if v.shape[1] > 1:
                    axes.fill_between(arm.steps, v.min(axis=1), v.max(axis=1), color=look["color"], alpha=0.12, lw=0)
            handles.append(line)
        for row, column in np.ndindex(panels.shape):
            axes = panels[row, column]
            plain_axes(axes)
            axes.tick_params(labelsize=8)
            axes.ticklabel_format(axis="y", useOffset=False)
            if column == 0:
                axes.set_ylabel("layer {}\nhead {}".format(*heads[row]), fontsize=9, color=INK)
            if row == 0:
                axes.set_title(list(MEASURES.values())[column], fontsize=9, loc="left")
            if row == len(heads) - 1:
                axes.set_xlabel("step", fontsize=9)
        legend_below(figure, handles, [arm.arm for arm in found])
        return figure


def says(found: Sequence[Evolved]) -> str:
    told = []
    for arm in found:
        for n, (layer, head) in enumerate(arm.heads):
            v = arm.values["entropy"][:, :, n].mean(axis=1)
            told.append(f"{arm.arm}, layer {layer} head {head}: {v[0]:.2f} to {v[-1]:.2f}")
    return f"What heads do over training. Entropy in nats from the first to the last step kept: {'; '.join(told)}."
