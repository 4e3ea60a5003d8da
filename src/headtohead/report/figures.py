"""Figures as SVG text, to be put into a page. Letters stay letters: they can be read aloud, found and scaled."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headtohead.metrics import figure_of
from headtohead.outcome import Outcome, Verdicts
from headtohead.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVE_SEEDS = 12  # of each arm; more would not change the picture
INK, QUIET, GRID = "#1f2430", "#667085", "#e4e7ec"
COLOURS = {"better": "#12805c", "worse": "#c0362c", "equivalent": "#1570ef", "unresolved": "#98a2b3"}
# told apart also by those who do not see red and green apart (Okabe and Ito)
ARMS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5c00", "#8a2be2"]


def forest(verdicts: Verdicts) -> str:
    """Every arm's difference from the control with its interval; the control is the line at zero."""
    rows = list(verdicts)
    scale = 100 if figure_of(verdicts.metric) in ("accuracy", "macro_f1") else 1
    with _figure(7.6, 0.9 + 0.42 * len(rows)) as (figure, axes, svg):
        drawn = []
        for y, row in enumerate(rows):
            v, colour = row.verdict, COLOURS[row.verdict.verdict]
            if not math.isfinite(v.difference):
                continue
            if math.isfinite(v.low):
                axes.plot([scale * v.low, scale * v.high], [y, y], color=colour, lw=2.2, solid_capstyle="round")
                drawn += [scale * v.low, scale * v.high]
            axes.plot([scale * v.difference], [y], "o", color=colour, ms=7)
        if verdicts.noise and math.isfinite(verdicts.noise.verdict.low):
            n = verdicts.noise.verdict
            axes.axvspan(scale * n.low, scale * n.high, color="#f2f4f7", zorder=0)
            drawn += [scale * n.low, scale * n.high]
        axes.axvline(0, color=INK, lw=1)
        axes.set_yticks(range(len(rows)), [row.arm for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(
            f"{verdicts.metric}, difference from {verdicts.control}"
            + (", percentage points" if scale == 100 else "")
            + f"; {'left' if verdicts.better == 'lower' else 'right'} is better"
        )
        axes.grid(axis="x", color=GRID)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        return svg(figure)


def curves(outcome: Outcome, title: str) -> str | None:
    """The validation figure along the way, the mean over the seeds of each arm and the spread of them."""
    import numpy as np

    figure_name = figure_of(outcome.metric)
    table = next(t for t in outcome.said["tables"] if t["title"] == title)
    lines: dict[str, tuple[list[int], Any]] = {}
    name = ""
    for arm in table["arms"]:
        per_seed: list[dict[int, float]] = []
        for run in list(arm["runs"].values())[:CURVE_SEEDS]:
            record = Record(outcome.home / "runs" / run)
            looks = record.metrics if (record.folder / "result.json").is_file() else []
            name = name or next(
                (n for n in ("validation", "train") if any(f"{n}/{figure_name}" in m for m in looks)), ""
            )
            points = {
                m["step"]: m[f"{name}/{figure_name}"] for m in looks if m.get(f"{name}/{figure_name}") is not None
            }
            if points:
                per_seed.append(points)
        steps = sorted(set.intersection(*(set(p) for p in per_seed))) if per_seed else []
        if len(steps) > 1:
            lines[arm["name"]] = steps, np.array([[p[s] for s in steps] for p in per_seed])
    if not lines:
        return None
    scale = 100 if figure_name in ("accuracy", "macro_f1") else 1
    with _figure(7.6, 3.6) as (figure, axes, svg):
        tops = []
        for n, (arm, (steps, values)) in enumerate(lines.items()):
            mean = scale * values.mean(axis=0)
            colour = ARMS[n % len(ARMS)]
            axes.plot(steps, mean, color=colour, lw=2 if n == 0 else 1.6, label=arm, ls="-" if n < len(ARMS) else "--")
            axes.fill_between(
                steps, scale * values.min(axis=0), scale * values.max(axis=0), color=colour, alpha=0.10, lw=0
            )
            tops.append(mean[min(1, len(mean) - 1)])
        if scale == 1:
            low = min(float(scale * v.min()) for _, v in lines.values())
            axes.set_ylim(
                low - 0.03 * (max(tops) - low), max(tops) + 0.08 * (max(tops) - low)
            )  # not the untrained start
        axes.set_xlabel("step")
        axes.set_ylabel(f"{name}/{figure_name}" + (", %" if scale == 100 else ""))
        axes.grid(color=GRID)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, ncols=2 if len(lines) > 4 else 1)
        return svg(figure)


@contextmanager
def _figure(width: float, height: float) -> Iterator[tuple[Figure, Any, Any]]:
    """A figure with one pair of axes."""
    with looks() as new:
        figure = new(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(), _svg


@contextmanager
def looks() -> Iterator[type[Figure]]:
    """What figures are made of here. No window, no global state: they may be drawn in threads and in notebooks."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    chosen: Any = {
        "svg.fonttype": "none",  # letters, not outlines
        "svg.hashsalt": "headtohead",  # the same figure, the same bytes
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": QUIET,
        "axes.edgecolor": QUIET,
        "axes.axisbelow": True,
        "xtick.color": QUIET,
        "ytick.color": INK,
        "text.parse_math": False,  # a dollar in a token is a dollar
    }
    with mpl.rc_context(chosen):
        yield Figure


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    # names of their own: several figures share a page
    own = f"f{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{own}", text)
    return text[text.index("<svg") :]
