"""Figures as SVG text, to be put into a page. Letters stay letters: they can be read aloud, found and scaled."""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from headtohead.errors import InputError
from headtohead.metrics import figure_of
from headtohead.outcome import ArmVerdict, Outcome, Verdicts
from headtohead.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVE_SEEDS = 12  # of each arm; more would not change the picture
SPREADS = 6  # with more arms the bands of lowest to highest would hide the lines
WIDTH = 7.6  # inches
INK, QUIET, GRID, BAND = "#1f2430", "#667085", "#e4e7ec", "#f2f4f7"
COLOURS = {"better": "#12805c", "worse": "#c0362c", "equivalent": "#1570ef", "unresolved": "#98a2b3"}
# told apart also by those who do not see red and green apart (Okabe and Ito)
ARMS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5c00", "#8a2be2"]
DASHES = ["-", "--", ":", "-."]


def forest(verdicts: Verdicts) -> str:
    """Every arm's difference from the control with its interval; the control is the line at zero."""
    rows = list(verdicts)
    scale = 100 if figure_of(verdicts.metric) in ("accuracy", "macro_f1") else 1
    with _figure(WIDTH, 1.1 + 0.42 * len(rows)) as (figure, axes, svg):
        drawn = False
        for y, row in enumerate(rows):
            v, colour = row.verdict, COLOURS[row.verdict.verdict]
            if not math.isfinite(v.difference):
                axes.annotate(_missing(row), (0, y), (6, 0), textcoords="offset points", va="center", color=QUIET)
                continue
            drawn = True
            if math.isfinite(v.low):
                axes.plot([scale * v.low, scale * v.high], [y, y], color=colour, lw=2.2, solid_capstyle="round")
            axes.plot([scale * v.difference], [y], "o", color=colour, ms=7)
        if verdicts.noise and math.isfinite(verdicts.noise.verdict.low):
            n = verdicts.noise.verdict
            axes.axvspan(scale * n.low, scale * n.high, color=BAND, lw=0, zorder=0)
            drawn = True
        axes.axvline(0, color=INK, lw=1)
        if not drawn:
            axes.set_xlim(-1, 1)
            axes.set_xticks([0])
        axes.set_yticks(range(len(rows)), ["" for _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(
            f"{verdicts.metric}, difference from {shortened([verdicts.control])[0]}"
            + (", percentage points" if scale == 100 else "")
            + f"\n{'left' if verdicts.better == 'lower' else 'right'} is better"
        )
        axes.grid(axis="x", color=GRID)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        labels = shortened([row.arm for row in rows])
        return svg(figure, lambda drawn_as: axes.set_yticklabels([drawn_as(label) for label in labels]))


def _missing(row: ArmVerdict) -> str:
    """Why an arm has no difference."""
    diverged = row.excluded and all(e.why.startswith("diverged") or "too large" in e.why for e in row.excluded)
    collapsed = row.excluded and all(e.why.startswith("collapsed") for e in row.excluded)
    return "diverged" if diverged else "collapsed" if collapsed else "no pairs"


def shortened(names: list[str], most: int = 30) -> list[str]:
    """For a figure, with what is left out in the middle shown by dots; the table beside it has the whole names. What
    differs stays different."""
    made: list[str] = []
    for name in (" ".join(name.split()) for name in names):
        short, room = name, most
        while _wide(short) > most:
            room -= 1
            short = f"{name[: (room + 1) // 2]}…{name[len(name) - room // 2 :]}"
        number = 2
        while short in made:
            short, number = f"{short.removesuffix(f' ({number - 1})')} ({number})", number + 1
        made.append(short)
    return made


def _wide(text: str) -> int:
    """Letters of Chinese, Japanese and Korean, and emoji, are twice as wide as others."""
    return len(text) + sum(east_asian_width(letter) in "WF" for letter in text)


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
            try:
                looks = record.metrics if (record.folder / "result.json").is_file() else []
            except InputError:  # torn: a line fewer, and the table says what matters
                looks = []
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
    labels = shortened(list(lines))
    columns = max(1, min(4, len(lines), 84 // (max(map(_wide, labels)) + 6)))
    with _figure(WIDTH, 3.4 + 0.21 * math.ceil(len(lines) / columns)) as (figure, axes, svg):
        tops = []
        for n, (steps, values) in enumerate(lines.values()):
            mean = scale * values.mean(axis=0)
            look = {"color": ARMS[n % len(ARMS)], "ls": DASHES[n // len(ARMS) % len(DASHES)]}
            axes.plot(steps, mean, lw=2 if n == 0 else 1.6, **look)
            if len(table["arms"]) <= SPREADS:
                spread = scale * values.min(axis=0), scale * values.max(axis=0)
                axes.fill_between(steps, *spread, color=look["color"], alpha=0.10, lw=0)
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
        # below the curves: inside it would cover some of them
        legend = figure.legend(axes.lines, labels, loc="outside lower center", frameon=False, ncols=columns)

        def name_lines(drawn_as: Callable[[str], str]) -> None:
            for text, label in zip(legend.get_texts(), labels, strict=True):
                text.set_text(drawn_as(label))

        return svg(figure, name_lines)


@contextmanager
def _figure(width: float, height: float) -> Iterator[tuple[Figure, Any, Any]]:
    """A figure with one pair of axes."""
    with looks() as new:
        figure = new(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(), _svg


@contextmanager
def looks(own: Any = None) -> Iterator[type[Figure]]:
    """What figures are made of here, with settings of the caller's own. No window, no global state: they may be drawn
    in threads and in notebooks."""
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
    with mpl.rc_context({**chosen, **(own or {})}):
        yield Figure


def _svg(figure: Figure, name: Callable[[Callable[[str], str]], object]) -> str:
    """`name` writes the arms' names. The font that measures has no letters of some scripts, which browsers have: room
    is made with others as wide."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        name(lambda label: "".join("W" if _wide(letter) > 1 else letter for letter in label))
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        name(str)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    # names of their own: several figures share a page
    own = f"f{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{own}", text)
    return text[text.index("<svg") :]
