"""The forest plot of a study: every arm's difference from the control, with its interval and every seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headtohead.figures.style import BAND, GRID, INK, QUIET, WIDTH, looks, shortened
from headtohead.outcome.outcome import ArmVerdict, Verdicts
from headtohead.outcome.wording import word
from headtohead.report.number_text import amount, between, cause, far_off, is_share, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"better": "#12805c", "worse": "#c0362c", "equivalent": "#1565d8", "unresolved": "#667085"}
MARKS = {"better": "o", "worse": "X", "equivalent": "s", "unresolved": "D"}  # verdicts without colour
Dots = Mapping[str, Mapping[int, float]]  # differences by arm and seed
Limits = tuple[float, float]


def drawing(verdicts: Verdicts, dots: Dots) -> Figure:
    """Draw every arm's difference from the control with its interval and every seed. Arms far from all others are
    arrows at the edge, with their number."""
    rows = list(verdicts)
    scale = 100 if is_share(verdicts.metric) else 1
    limits = _limits(verdicts, dots)
    with looks() as new:
        figure = new(figsize=(WIDTH, 1.1 + 0.5 * len(rows)), layout="constrained")
        axes = figure.subplots()
        shown = limits is not None
        for y, row in enumerate(rows):
            low, high = limits or (-math.inf, math.inf)
            shown |= _arm(axes, y, row, dots.get(row.arm, {}), scale, (scale * low, scale * high))
        if verdicts.noise and math.isfinite(verdicts.noise.verdict.alone_low):
            n = verdicts.noise.verdict
            axes.axvspan(scale * n.alone_low, scale * n.alone_high, color=BAND, lw=0, zorder=0)
            shown = True
        axes.axvline(0, color=INK, lw=1)
        if limits:
            room = 0.06 * (limits[1] - limits[0])
            axes.set_xlim(scale * (limits[0] - room), scale * (limits[1] + room))
        if shown:
            axes.locator_params(axis="x", nbins=7 if scale == 100 else 5)  # small differences have many digits
        else:
            axes.set(xlim=(-1, 1), xticks=[0])
        axes.set(yticks=[], ylim=(len(rows) - 0.5, -0.5))
        beside: Any = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "annotation_clip": False}
        for y, label in enumerate(shortened([row.arm for row in rows])):
            axes.annotate(label, (0, y), (-4, 0), ha="right", va="center", **beside)
        axes.set_xlabel(
            f"{verdicts.metric}, difference from {shortened([verdicts.control])[0]}"
            + (", points" if scale == 100 else "")
            + f"\n{'left' if verdicts.better == 'lower' else 'right'} is better"
        )
        axes.grid(axis="x", color=GRID)
        axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def _arm(axes: Any, y: int, row: ArmVerdict, seeds: Mapping[int, float], scale: int, limits: Limits) -> bool:
    """Draw a row of the forest. Returns whether it shows anything."""
    v, colour = row.verdict, COLOURS[row.verdict.verdict]
    if not math.isfinite(v.difference):
        axes.annotate(_missing(row), (0, y), (6, 0), textcoords="offset points", va="center", color=QUIET)
        return False

    low, high = limits

    def draw(points: list[tuple[float, float]], mark: str, **look: Any) -> None:
        """Draw marks, or arrows at the edge for points that lie beyond it."""
        for shape in (mark, "<", ">"):
            some = [at for at in points if shape == ("<" if at[0] < low else ">" if at[0] > high else mark)]
            if some:
                axes.plot([min(max(x, low), high) for x, _ in some], [at for _, at in some], shape, **look, ls="none")

    mean = scale * v.difference
    look: Any = {"color": colour, "ms": 7.5, "mec": "white", "mew": 0.8, "zorder": 4}
    for a, b, width in ((v.low, v.high, 1.1), (v.alone_low, v.alone_high, 3.2)):  # the one that decides, and alone
        if not (math.isfinite(a) and math.isfinite(b)):
            continue
        ends = [scale * a, scale * b]
        if ends[0] < high and ends[1] > low:
            axes.plot([max(ends[0], low), min(ends[1], high)], [y, y], color=colour, lw=width, solid_capstyle="round")
        for end in ends:
            if not low <= end <= high:
                draw([(end, y)], "", **look)
    draw([(mean, y)], MARKS[v.verdict], **look)
    if not low <= mean <= high:
        right = mean > high
        beside: Any = {"textcoords": "offset points", "va": "center", "ha": "right" if right else "left"}
        axes.annotate(short(mean, "+"), (high if right else low, y), (-9 if right else 9, 0), color=colour, **beside)
    small: Any = {"ms": 3.4, "mfc": "none", "mec": INK, "mew": 0.7, "alpha": 0.75}
    spread = [(scale * d, y + 0.24 + 0.07 * (n % 3 - 1)) for n, d in enumerate(seeds.values())]
    draw(spread, "o", **small)
    said = {"xycoords": axes.get_yaxis_transform(), "va": "center", "color": colour, "annotation_clip": False}
    axes.annotate(word(row), (1.015, y), **said)
    return True


def _reach(row: ArmVerdict, dots: Dots) -> list[float]:
    """Every value in a row."""
    v = row.verdict
    ends = (v.low, v.high, v.alone_low, v.alone_high)
    return [x for x in (0.0, v.difference, *ends, *dots.get(row.arm, {}).values()) if math.isfinite(x)]


def _far(verdicts: Verdicts, dots: Dots) -> list[ArmVerdict]:
    """Arms beyond the edge."""
    reaches = {r.arm: max(map(abs, _reach(r, dots))) for r in verdicts if math.isfinite(r.verdict.difference)}
    size = abs(verdicts.control_mean) if math.isfinite(verdicts.control_mean) else 1.0
    beyond = far_off(reaches, size)
    return [row for row in verdicts if row.arm in beyond]


def _limits(verdicts: Verdicts, dots: Dots) -> Limits | None:
    """Limits of the figure if some arm lies beyond them, with room for arrows on both sides."""
    beyond = _far(verdicts, dots)
    if not beyond:
        return None
    seen = [x for row in verdicts if row not in beyond for x in _reach(row, dots)]
    wide = max(map(abs, seen)) or 0.01 * abs(verdicts.control_mean) or 1.0
    noise = verdicts.noise.verdict if verdicts.noise else None
    if noise and math.isfinite(noise.alone_low) and max(abs(noise.alone_low), abs(noise.alone_high)) < 10 * wide:
        seen += [noise.alone_low, noise.alone_high]
    return min(*seen, -0.3 * wide), max(*seen, 0.3 * wide)


def _differs(verdicts: Verdicts, row: ArmVerdict) -> str:
    v = row.verdict
    return f"{amount(verdicts.metric, v.difference) if v.pairs else '–'} ({between(verdicts.metric, v.low, v.high)})"


def beyond_text(verdicts: Verdicts, dots: Dots) -> str:
    """The values of arms beyond the edge, as text."""
    told = [f"{row.arm} at {_differs(verdicts, row)}" for row in _far(verdicts, dots)]
    return f"Beyond the edge, where arrows point: {'; '.join(told)}." if told else ""


def says(verdicts: Verdicts, dots: Dots) -> str:
    """The alternative text of the figure."""
    told = [f"{row.arm} {_differs(verdicts, row)}, {word(row)}" for row in verdicts]
    said = f"Differences from {verdicts.control} in {verdicts.metric}, with 95 % intervals. {'; '.join(told)}."
    return f"{said} {beyond_text(verdicts, dots)}".strip()


def _missing(row: ArmVerdict) -> str:
    """Why an arm has no difference."""
    causes = {cause(e.why) for e in row.excluded}
    words = {"divergence": "diverged", "collapse": "collapsed"}
    return words.get(causes.pop(), "no pairs") if len(causes) == 1 else "no pairs"
