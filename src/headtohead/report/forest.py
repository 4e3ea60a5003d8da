"""The forest plot of a study: every arm's difference from the control, with its interval and every seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from headtohead.figures.style import BAND, GRID, INK, QUIET, WIDTH, Drawing, looks, shortened
from headtohead.outcome.outcome import ArmVerdict, Verdicts
from headtohead.outcome.wording import word
from headtohead.report.number_text import amount, between, cause, far_off, is_share, short

COLOURS = {"better": "#12805c", "worse": "#c0362c", "equivalent": "#1565d8", "unresolved": "#667085"}
MARKS = {"better": "o", "worse": "X", "equivalent": "s", "unresolved": "D"}  # verdicts without colour
Dots = Mapping[str, Mapping[int, float]]  # differences by arm and seed


def forest(verdicts: Verdicts, dots: Dots | None = None) -> str:
    return forest_drawing(verdicts, dots or {}).svg()


def forest_drawing(verdicts: Verdicts, dots: Dots) -> Drawing:
    """Draw every arm's difference from the control with its interval and every seed. Arms far from all others are
    arrows at the edge, with their number."""
    rows = list(verdicts)
    scale = 100 if is_share(verdicts.metric) else 1
    edges = _edges(verdicts, dots)
    limits = tuple(scale * edge for edge in edges) if edges else None
    with looks() as new:
        figure = new(figsize=(WIDTH, 1.1 + 0.5 * len(rows)), layout="constrained")
        axes = figure.subplots()
        drawn = [_arm(axes, y, row, dots.get(row.arm, {}), scale, limits) for y, row in enumerate(rows)]
        if verdicts.noise and math.isfinite(verdicts.noise.verdict.low):
            n = verdicts.noise.verdict
            axes.axvspan(scale * n.low, scale * n.high, color=BAND, lw=0, zorder=0)
            drawn.append(True)
        axes.axvline(0, color=INK, lw=1)
        if limits:
            room = 0.06 * (limits[1] - limits[0])
            axes.set_xlim(limits[0] - room, limits[1] + room)
        if not any(drawn):
            axes.set_xlim(-1, 1)
            axes.set_xticks([0])
        axes.set_yticks(range(len(rows)), ["" for _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(
            f"{verdicts.metric}, difference from {shortened([verdicts.control])[0]}"
            + (", points" if scale == 100 else "")
            + f"\n{'left' if verdicts.better == 'lower' else 'right'} is better"
        )
        if any(drawn) or limits:
            axes.locator_params(axis="x", nbins=7 if scale == 100 else 5)  # small differences have many digits
        axes.grid(axis="x", color=GRID)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        labels = shortened([row.arm for row in rows])
    return Drawing(figure, lambda drawn_as: axes.set_yticklabels([drawn_as(label) for label in labels]))


def _arm(
    axes: Any, y: int, row: ArmVerdict, seeds: Mapping[int, float], scale: int, limits: tuple[float, ...] | None
) -> bool:
    """Draw a row of the forest. Returns whether it shows anything."""
    v, colour = row.verdict, COLOURS[row.verdict.verdict]
    if not math.isfinite(v.difference):
        axes.annotate(_missing(row), (0, y), (6, 0), textcoords="offset points", va="center", color=QUIET)
        return False
    low, high = limits or (-math.inf, math.inf)
    if math.isfinite(v.low) and scale * v.low < high and scale * v.high > low:
        ends = max(scale * v.low, low), min(scale * v.high, high)
        axes.plot(ends, [y, y], color=colour, lw=2.2, solid_capstyle="round")
    mean = scale * v.difference
    look: Any = {"color": colour, "ms": 7.5, "mec": "white", "mew": 0.8, "zorder": 4}
    if low <= mean <= high:
        axes.plot([mean], [y], MARKS[v.verdict], **look)
        for end, edge, mark in ((scale * v.low, low, "<"), (scale * v.high, high, ">")):
            if math.isfinite(end) and not low <= end <= high:
                axes.plot([edge], [y], mark, **look)
    else:
        right = mean > high
        axes.plot([high if right else low], [y], ">" if right else "<", **look)
        beside: Any = {"textcoords": "offset points", "va": "center", "ha": "right" if right else "left"}
        axes.annotate(short(mean, "+"), (high if right else low, y), (-9 if right else 9, 0), color=colour, **beside)
    # spread the dots vertically
    below = [(scale * d, y + 0.24 + 0.07 * (n % 3 - 1)) for n, d in enumerate(seeds.values())]
    small: Any = {"ms": 3.4, "mfc": "none", "mec": INK, "mew": 0.7, "alpha": 0.75, "ls": "none"}
    for mark, some in (
        ("o", [at for at in below if low <= at[0] <= high]),
        ("<", [(low, at[1]) for at in below if at[0] < low]),
        (">", [(high, at[1]) for at in below if at[0] > high]),
    ):
        if some:
            axes.plot([x for x, _ in some], [at for _, at in some], mark, **small)
    said = {"xycoords": axes.get_yaxis_transform(), "va": "center", "color": colour, "annotation_clip": False}
    axes.annotate(word(row), (1.015, y), **said)
    return True


def _reach(row: ArmVerdict, dots: Dots) -> tuple[float, ...]:
    """Every value in a row."""
    v = row.verdict
    return tuple(filter(math.isfinite, (0.0, v.difference, v.low, v.high, *dots.get(row.arm, {}).values())))


def _far(verdicts: Verdicts, dots: Dots) -> list[ArmVerdict]:
    """Arms beyond the edge."""
    reaches = {r.arm: max(map(abs, _reach(r, dots))) for r in verdicts if math.isfinite(r.verdict.difference)}
    size = abs(verdicts.control_mean) if math.isfinite(verdicts.control_mean) else 1.0
    beyond = far_off(reaches, size)
    return [row for row in verdicts if row.arm in beyond]


def _edges(verdicts: Verdicts, dots: Dots) -> tuple[float, float] | None:
    """Limits of the figure if some arm lies beyond them, with room for arrows on both sides."""
    beyond = _far(verdicts, dots)
    if not beyond:
        return None
    seen = [x for row in verdicts if row not in beyond for x in _reach(row, dots)]
    wide = max(map(abs, seen)) or 0.01 * abs(verdicts.control_mean) or 1.0
    noise = verdicts.noise.verdict if verdicts.noise else None
    if noise and math.isfinite(noise.low) and max(abs(noise.low), abs(noise.high)) < 10 * wide:
        seen += [noise.low, noise.high]
    return min(*seen, -0.3 * wide), max(*seen, 0.3 * wide)


def forest_beyond(verdicts: Verdicts, dots: Dots) -> str:
    """The values of arms beyond the edge, as text."""
    told = [
        f"{row.arm} at {amount(verdicts.metric, row.verdict.difference)} "
        f"({between(verdicts.metric, row.verdict.low, row.verdict.high)})"
        for row in _far(verdicts, dots)
    ]
    return f"Beyond the edge, where arrows point: {'; '.join(told)}." if told else ""


def _missing(row: ArmVerdict) -> str:
    """Why an arm has no difference."""
    words = {"divergence": "diverged", "collapse": "collapsed"}
    causes = {cause(e.why) for e in row.excluded}
    return words.get(causes.pop(), "no pairs") if len(causes) == 1 else "no pairs"
