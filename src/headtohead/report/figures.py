"""Figures of a study, as SVG for its page and as PDF for a paper. Letters stay letters: they can be read aloud, found
and scaled."""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from headtohead.outcome import ArmVerdict, Verdicts
from headtohead.report.amounts import amount, between, cause, far_off, is_share, short
from headtohead.wording import word

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 7.6  # inches
INK, QUIET, GRID, BAND = "#1f2430", "#667085", "#e4e7ec", "#f2f4f7"
COLOURS = {"better": "#12805c", "worse": "#c0362c", "equivalent": "#1565d8", "unresolved": "#667085"}
MARKS = {"better": "o", "worse": "X", "equivalent": "s", "unresolved": "D"}  # verdicts without colour
# told apart also by those who do not see red and green apart (Okabe and Ito); the light ones darkened for white paper
ARMS = ["#000000", "#0072b2", "#d55e00", "#00845f", "#b9578b", "#a86f00", "#2a86bf", "#7a5c00", "#8a2be2"]
# and without any colour: on and off, in points
DASHES: list[tuple[float, ...]] = [
    (),
    (6, 2.5),
    (1.5, 2),
    (7, 2.5, 1.5, 2.5),
    (12, 3),
    (4, 1.5, 1, 1.5, 1, 1.5),
    (3, 3),
    (10, 2, 4, 2),
]
DOTS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")  # arms without colour, where there are no lines

Dots = Mapping[str, Mapping[int, float]]  # of each arm, its difference seed by seed


# -- the forest --------------------------------------------------------------------------------------------------------


def forest(verdicts: Verdicts, dots: Dots | None = None) -> str:
    return forest_drawing(verdicts, dots or {}).svg()


def forest_drawing(verdicts: Verdicts, dots: Dots) -> Drawing:
    """Every arm's difference from the control, the line at zero, with its interval and every seed's dot. Arms that lie
    far off all others are arrows at the edge, with their number."""
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
    """A row of the forest; whether there is anything to see in it."""
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
    # not upon each other
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
    """All that a row would have to show."""
    v = row.verdict
    return tuple(filter(math.isfinite, (0.0, v.difference, v.low, v.high, *dots.get(row.arm, {}).values())))


def _far(verdicts: Verdicts, dots: Dots) -> list[ArmVerdict]:
    """Arms beyond the edge."""
    reaches = {r.arm: max(map(abs, _reach(r, dots))) for r in verdicts if math.isfinite(r.verdict.difference)}
    size = abs(verdicts.control_mean) if math.isfinite(verdicts.control_mean) else 1.0
    beyond = far_off(reaches, size)
    return [row for row in verdicts if row.arm in beyond]


def _edges(verdicts: Verdicts, dots: Dots) -> tuple[float, float] | None:
    """From where to where the figure goes if some arm lies beyond it; on both sides of zero is room for an arrow."""
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
    """In words, what the arrows at the edge stand for."""
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


# -- what figures share ------------------------------------------------------------------------------------------------


def shortened(names: list[str], most: int = 30) -> list[str]:
    """For a figure, with what is left out in the middle shown by dots; the table beside it has the whole names. What
    differs stays different."""
    made: list[str] = []
    for name in (" ".join(name.split()) for name in names):
        short, room = name, most
        while wide(short) > most:
            room -= 1
            short = f"{name[: (room + 1) // 2]}…{name[len(name) - room // 2 :]}"
        number = 2
        while short in made:
            short, number = f"{short.removesuffix(f' ({number - 1})')} ({number})", number + 1
        made.append(short)
    return made


def wide(text: str) -> int:
    """Letters of Chinese, Japanese and Korean, and emoji, are twice as wide as others."""
    return len(text) + sum(east_asian_width(letter) in "WF" for letter in text)


@contextmanager
def looks(own: Any = None) -> Iterator[type[Figure]]:
    """What figures are made of here, with settings of the caller's own. No window, no global state: they may be drawn
    in threads and in notebooks."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    chosen: Any = {
        "svg.fonttype": "none",  # letters, not outlines
        "pdf.fonttype": 42,  # fonts are embedded as they are: publishers ask for it
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


def line_look(number: int) -> dict[str, Any]:
    """An arm's colour and dashes, in every figure the same."""
    dash = DASHES[number % len(DASHES)]
    return {"color": ARMS[number % len(ARMS)], "ls": (0, dash) if dash else "-"}


@dataclass(frozen=True)
class Drawing:
    """A figure that is ready but for the arms' names."""

    figure: Figure
    name: Callable[[Callable[[str], str]], object]  # writes them

    def svg(self, says: str = "") -> str:
        """With what it `says` for those who do not see it."""
        text = self._saved("svg").decode()
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        # ids of their own: several figures share a page
        own = f"f{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
        text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{own}", text)
        text = text[text.index("<svg") :]
        return text.replace("<svg ", f'<svg role="img" aria-label="{escape(says)}" ', 1) if says else text

    def pdf(self) -> bytes:
        return self._saved("pdf")

    def _saved(self, kind: str) -> bytes:
        """The font that measures has no letters of some scripts, which browsers have: room is made with others as
        wide."""
        buffer = io.BytesIO()
        metadata: Any = {"Date": None, "Creator": None} if kind == "svg" else {"CreationDate": None}
        with looks(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            self.name(lambda label: "".join("W" if wide(letter) > 1 else letter for letter in label))
            self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")
            self.name(str)
            self.figure.savefig(buffer, format=kind, transparent=True, metadata=metadata)
        return buffer.getvalue()


def legend_below(figure: Figure, handles: Any, labels: list[str]) -> Callable[[Callable[[str], str]], object]:
    """Inside it would cover what it explains. Gives what writes the names into it."""
    short = shortened(labels)
    legend = figure.legend(
        handles, short, loc="outside lower center", frameon=False, ncols=columns_of(short), handlelength=3.6
    )

    def name(drawn_as: Callable[[str], str]) -> None:
        for text, label in zip(legend.get_texts(), short, strict=True):
            text.set_text(drawn_as(label))

    return name


def columns_of(labels: list[str]) -> int:
    """Of a legend as wide as a figure."""
    return max(1, min(4, len(labels), 84 // (max(map(wide, labels)) + 6)))
