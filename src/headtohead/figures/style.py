"""The style of figures: colours, line styles, labels, and output as SVG or PDF.

Text stays text in the SVG, so that it can be searched, scaled and read by a screen reader.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

from headtohead.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 7.6  # inches
INK, QUIET, GRID, BAND = "#1f2430", "#667085", "#e4e7ec", "#f2f4f7"
# safe for colour-blind readers (Okabe and Ito); the light colours are darkened for a white background
ARMS = ["#000000", "#0072b2", "#d55e00", "#00845f", "#b9578b", "#a86f00", "#2a86bf", "#7a5c00", "#8a2be2"]
# dashes distinguish arms without colour; lengths on and off, in points
DASHES: list[tuple[float, ...]] = [
    *((), (6, 2.5), (1.5, 2), (7, 2.5, 1.5, 2.5), (12, 3)),
    *((4, 1.5, 1, 1.5, 1, 1.5), (3, 3), (10, 2, 4, 2)),
]
DOTS = "os^DvPX*<>"  # markers distinguish arms without colour where there are no lines


def shortened(names: list[str], most: int = 30) -> list[str]:
    """Shorten names for a figure to at most `most` columns, with dots in the middle. Different names stay different."""
    labels: list[str] = []
    for name in (" ".join(name.split()) for name in names):
        short, room = name, most
        while wide(short) > most:
            room -= 1
            short = f"{name[: (room + 1) // 2]}…{name[len(name) - room // 2 :]}"
        number = 2
        while short in labels:
            short, number = f"{short.removesuffix(f' ({number - 1})')} ({number})", number + 1
        labels.append(short)
    return labels


def wide(text: str) -> int:
    """The width of a text in columns. Chinese, Japanese and Korean characters and emoji take two columns."""
    return len(text) + sum(east_asian_width(letter) in "WF" for letter in text)


@contextmanager
def looks(extra: Any = None) -> Iterator[type[Figure]]:
    """Give matplotlib's Figure class while the style applies; `extra` adds or replaces settings.

    It does not use pyplot and opens no window, so that figures can be drawn in threads and notebooks.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",  # text, not outlines
        "pdf.fonttype": 42,  # TrueType fonts are embedded, as publishers require
        "svg.hashsalt": "headtohead",  # the same figure gives the same bytes
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": QUIET,
        "axes.edgecolor": QUIET,
        "axes.axisbelow": True,
        "xtick.color": QUIET,
        "ytick.color": INK,
        "text.parse_math": False,  # a dollar sign in a token does not start a formula
    }
    with mpl.rc_context({**settings, **(extra or {})}):
        yield Figure


def line_look(number: int) -> dict[str, Any]:
    """The colour and dashes of an arm, the same in every figure."""
    dash = DASHES[number % len(DASHES)]
    return {"color": ARMS[number % len(ARMS)], "ls": (0, dash) if dash else "-"}


def saved(figure: Figure, kind: str, **options: Any) -> bytes:
    """The figure as a png, svg or pdf file; the same figure gives the same bytes.

    matplotlib's font lacks some scripts that browsers have. The layout is therefore computed with other characters of
    the same width in their place.
    """
    from matplotlib.text import Text

    buffer = io.BytesIO()
    metadata: Any = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    with looks(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        texts = {text: said for text in figure.findobj(Text) if wide(said := text.get_text()) > len(said)}
        for text, said in texts.items():
            text.set_text("".join("W" if wide(letter) > 1 else letter for letter in said))
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for text, said in texts.items():
            text.set_text(said)
        figure.savefig(buffer, format=kind, metadata=metadata[kind], **options)
    return buffer.getvalue()


def svg(figure: Figure, says: str = "") -> str:
    """The figure as SVG for a page, with `says` as its description for screen readers."""
    text = saved(figure, "svg", transparent=True).decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # a prefix makes ids unique on a page with several figures
    prefix = f"f{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}", text)
    text = text[text.index("<svg") :]
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(says)}" ', 1) if says else text


def plain_axes(axes: Any) -> None:
    """Draw a grid, and no frame above and to the right."""
    axes.grid(color=GRID)
    axes.spines[["top", "right"]].set_visible(False)


def legend_below(figure: Figure, handles: Any, labels: list[str], most: int = 30) -> None:
    """Put the legend below the plot, where it covers nothing."""
    short = shortened(labels, most)
    figure.legend(handles, short, loc="outside lower center", frameon=False, ncols=columns_of(short), handlelength=3.6)


def columns_of(labels: list[str]) -> int:
    """The number of columns of a legend that is as wide as a figure."""
    return max(1, min(4, len(labels), 84 // (max(map(wide, labels)) + 6)))


def check_out(out: str | None, kinds: Sequence[str]) -> None:
    """Refuse a file name that cannot be written, before the work and not after it."""
    kind = "" if out is None else Path(out).suffix.removeprefix(".").lower()
    if out is not None and kind not in kinds:
        raise InputError(f"--out {out}: give a name that ends in {' or '.join('.' + k for k in kinds)}")
    if out is not None and Path(out).is_dir():
        raise InputError(f"--out {out} is a folder: give the name of a file")
