"""Attention maps as pictures: a grid of layers × heads, two runs and their difference, one head through training."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.errors import InputError
from headtohead.inspect.bins import bin_labels, binned, text_edges
from headtohead.inspect.maps import Maps
from headtohead.report.figures import INK, QUIET, looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
BINS = 192  # rows and columns of one map at most
LABELLED = 64  # tokens up to which each has its label
FRAMES = 12  # of a film strip
WIDEST = 32.0  # inches of a picture
NOWHERE, PADDING = "#f4f4f6", "#d5d7db"  # no weight at all; no token


def grid(maps: Maps) -> Figure:
    """Every layer in a row, every head in a column."""
    with looks() as new:
        L, H = len(maps.layers), len(maps.heads)
        side = _side(len(maps.tokens), L * H, H)
        figure = new(figsize=(max(6.4, side * H + 1.6), side * L + 1.5), layout="constrained")
        panels = figure.subplots(L, H, squeeze=False)
        drawn = _panels(maps, panels, side)
        _colour_bar(figure, drawn, panels)
        figure.suptitle(_title(maps), fontsize=11, x=0.01, ha="left")
        figure.supxlabel(_below(maps), fontsize=9, color=QUIET, x=0.01, ha="left")
        return figure


def chosen(maps: Maps, pairs: Sequence[tuple[int, int]]) -> Figure:
    """These layers' heads side by side."""
    with looks() as new:
        across = min(4, len(pairs))
        down = -(-len(pairs) // across)
        side = min(3.4, _side(len(maps.tokens), len(pairs), across))
        figure = new(figsize=(max(6.4, side * across + 1.6), side * down + 1.1), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False)
        drawn = None
        for n, panel in enumerate(panels.flat):
            if n >= len(pairs):
                panel.set_axis_off()
                continue
            layer, head = pairs[n]
            last = n + across >= len(pairs)
            drawn = _panel(panel, maps.only([layer], [head]), 0, 0, side, rows=n % across == 0, columns=last)
            panel.set_title(f"layer {layer}, head {head}", fontsize=9, loc="left")
        _colour_bar(figure, drawn, panels)
        figure.supxlabel(_below(maps), fontsize=9, color=QUIET, x=0.01, ha="left")
        return figure


def comparison(one: Maps, other: Maps) -> Figure:
    """Two runs on the same text, and where their tokens are the same the difference between them."""
    with looks() as new:
        L, H = max(len(m.layers) for m in (one, other)), max(len(m.heads) for m in (one, other))
        differ = _comparable(one, other)
        parts = 2 if differ else 3
        side = _side(max(len(m.tokens) for m in (one, other)), 3 * L * H, H)
        wide, high = max(4.2, side * H + 1.6), side * L + 2.1
        down = parts * wide > WIDEST  # then one below the other
        size = (wide, parts * high) if down else (parts * wide, high)
        figure = new(figsize=size, layout="constrained")
        beside: Any = figure.subfigures(parts, 1) if down else figure.subfigures(1, parts)
        for part, maps in zip(beside[:2], (one, other), strict=True):
            panels = part.subplots(len(maps.layers), len(maps.heads), squeeze=False)
            _colour_bar(part, _panels(maps, panels, side), panels)
            part.suptitle(_title(maps), fontsize=10, x=0.01, ha="left")
            part.supxlabel(_below(maps), fontsize=9, color=QUIET, x=0.01, ha="left")
        if not differ:
            _difference(beside[2], one, other, side)
        else:
            figure.supxlabel(f"no difference map: {differ}", fontsize=9, color=QUIET, x=0.01, ha="left")
        return figure


def film(frames: Sequence[Maps]) -> Figure:
    """One head's map through training, the steps evenly spread."""
    chosen = [
        frames[n] for n in np.unique(np.linspace(0, len(frames) - 1, min(FRAMES, len(frames))).round().astype(int))
    ]
    if any(m.weights.shape[:2] != (1, 1) for m in chosen):
        raise InputError("a film strip shows one head: choose it with --layer and --head")
    with looks() as new:
        across = min(4, len(chosen))
        down = -(-len(chosen) // across)
        side = _side(len(chosen[0].tokens), len(chosen), across)
        figure = new(figsize=(max(6.4, side * across + 1.6), side * down + 1.5), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False)
        drawn = None
        for n, panel in enumerate(panels.flat):
            if n >= len(chosen):
                panel.set_axis_off()
                continue
            first, last = n % across == 0, n + across >= len(chosen)
            drawn = _panel(panel, chosen[n], 0, 0, side, rows=first, columns=last)
            panel.set_title(f"step {chosen[n].step:,}: {_short(chosen[n].answer(), 30)}", fontsize=8, loc="left")
        _colour_bar(figure, drawn, panels)
        head = f"layer {chosen[0].layers[0]}, head {chosen[0].heads[0]} through training"
        figure.suptitle(f"{chosen[0].name}; {head}", fontsize=11, x=0.01, ha="left")
        return figure


def image(figure: Figure, kind: str) -> bytes:
    """As a file's bytes."""
    if kind not in FORMATS:
        raise InputError(f"a picture is .png or .svg, not .{kind}")
    buffer = io.BytesIO()
    with looks(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # an emoji becomes a box
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=110, metadata=metadata)
    return buffer.getvalue()


# -- one map -----------------------------------------------------------------------------------------------------------


def _side(tokens: int, panels: int, across: int) -> float:
    """Inches: room for each token's label where they are few, a glance where there are many maps of many tokens. Side
    by side they stay within what a screen shows."""
    if tokens > LABELLED:
        return 2.6 if panels <= 12 else 1.7
    return max(1.7, min(6.0, 0.6 + 0.145 * tokens, WIDEST / across))


def _panels(maps: Maps, panels: Any, side: float) -> Any:
    drawn = None
    for row, layer in enumerate(maps.layers):
        for column, head in enumerate(maps.heads):
            last = row == len(maps.layers) - 1
            drawn = _panel(panels[row, column], maps, row, column, side, rows=column == 0, columns=last)
            panels[row, column].set_title(f"layer {layer}, head {head}", fontsize=9, loc="left")
    return drawn


def _panel(axes: Any, maps: Maps, row: int, column: int, side: float, rows: bool, columns: bool) -> Any:
    """One head: no weight at all is left blank and padding is hatched, lest a small weight be taken for none."""
    from matplotlib.colors import PowerNorm

    edges = text_edges(maps.real, len(maps.tokens), BINS)
    w = binned(maps.weights[row, column], edges)
    drawn = axes.imshow(np.ma.masked_equal(w, 0), cmap="viridis", norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
    _frame(axes, maps, edges, side, rows, columns)
    return drawn


def _frame(axes: Any, maps: Maps, edges: np.ndarray, side: float, rows: bool, columns: bool) -> None:
    axes.set_facecolor(NOWHERE)
    n, real = len(edges) - 1, int(np.searchsorted(edges, maps.real))
    if real < n:
        hatched = {"facecolor": PADDING, "hatch": "////", "edgecolor": "#ffffff", "lw": 0}
        axes.axvspan(real - 0.5, n - 0.5, **hatched)
        axes.axhspan(real - 0.5, n - 0.5, **hatched)
    labels = [label(t) for t in bin_labels(maps.tokens, edges)]
    every = max(1, -(-n // (LABELLED if len(maps.tokens) <= LABELLED else int(side * 6))))
    size = min(8.0, max(5.0, 62 * side / max(1, n / every) / 1.25))
    at = list(range(0, n, every))
    for axis, shown, turn in ((axes.xaxis, columns, 90), (axes.yaxis, rows, 0)):
        if shown:
            axis.set_ticks(at, [labels[p] for p in at], fontsize=size, rotation=turn, color=INK)
        else:
            axis.set_ticks([])  # where nobody reads them they still take their time
    axes.tick_params(length=0 if len(maps.tokens) <= LABELLED else 2, pad=2)
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)
    for spine in axes.spines.values():
        spine.set_color("#c4c7ce")


def label(token: str, most: int = 14) -> str:
    """A token on an axis: white space to be seen, control characters gone."""
    seen = token.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣" if token.strip() == "" else "·")
    return _short("".join(c if c.isprintable() else "�" for c in seen), most)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _colour_bar(figure: Any, drawn: Any, panels: Any) -> None:
    bar = figure.colorbar(drawn, ax=panels, shrink=0.7, aspect=30, pad=0.01, ticks=[0, 0.01, 0.05, 0.1, 0.25, 0.5, 1])
    bar.ax.set_yticklabels(["0", "0.01", "0.05", "0.1", "0.25", "0.5", "1"], fontsize=8)
    bar.set_label("weight of the key (column) for the query (row)", fontsize=8)


def _title(maps: Maps) -> str:
    step = "" if maps.step is None else ", before training" if maps.step == 0 else f", step {maps.step:,}"
    return f"{maps.name}{step}\n{_short(maps.answer(), 70)}"


def _below(maps: Maps) -> str:
    said = []
    bins = len(text_edges(maps.real, maps.real, BINS)) - 1
    if bins < maps.real:
        said.append(f"{maps.real:,} tokens in {bins} bins: keys added up, queries averaged")
    if maps.cut:
        said.append(f"cut to the block: {maps.cut:,} tokens at the end are not read")
    if maps.real < len(maps.tokens):
        said.append("hatched: padding")
    broken = [check for check in maps.checks if check.broken]
    said += [f"BROKEN: {check.name}: {check.says}" for check in broken]
    proved = sum(check.verdict == "proved" for check in maps.checks)
    said.append(f"{proved} sanity checks proved, {len(broken)} broken")
    return "; ".join(said)


# -- two of them -------------------------------------------------------------------------------------------------------


def _comparable(one: Maps, other: Maps) -> str:
    """Why there is no difference to draw; nothing where there is one."""
    if one.tokens != other.tokens:
        return "the two models cut the text into other tokens"
    if (one.layers, one.heads) != (other.layers, other.heads):
        return "the two models have other layers or heads"
    return ""


def _difference(part: Any, one: Maps, other: Maps, side: float) -> None:
    edges = text_edges(one.real, len(one.tokens), BINS)
    change = binned(other.weights - one.weights, edges)
    most = float(max(np.abs(change).max(), 1e-6))
    panels = part.subplots(len(one.layers), len(one.heads), squeeze=False)
    drawn = None
    for row, layer in enumerate(one.layers):
        for column, head in enumerate(one.heads):
            axes = panels[row, column]
            seen = np.ma.masked_where(
                binned(one.weights[row, column] + other.weights[row, column], edges) == 0, change[row, column]
            )
            drawn = axes.imshow(seen, cmap="PuOr_r", vmin=-most, vmax=most, interpolation="nearest")
            _frame(axes, one, edges, side, column == 0, row == len(one.layers) - 1)
            axes.set_title(f"layer {layer}, head {head}", fontsize=9, loc="left")
    bar = part.colorbar(drawn, ax=panels, shrink=0.7, aspect=30, pad=0.01)
    bar.set_label("weight, second run minus first", fontsize=8)
    part.suptitle("the difference\nsecond run minus first", fontsize=10, x=0.01, ha="left")
