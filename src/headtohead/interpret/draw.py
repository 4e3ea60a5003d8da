"""Pictures of attention maps: a grid of layers × heads, two runs and their difference, one head through training."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.errors import InputError
from headtohead.figures.style import INK, QUIET, looks
from headtohead.interpret.bins import bin_labels, binned, text_edges
from headtohead.interpret.maps import Maps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")
BINS = 192  # largest number of rows and columns of a map
LABELLED = 64  # with more tokens, not every token has a label
FRAMES = 12  # largest number of maps in a film strip
WIDEST = 32.0  # inches
NOWHERE, PADDING = "#f4f4f6", "#d5d7db"  # colours of zero weight and of padding


def grid(maps: Maps) -> Figure:
    """Draw all maps: a row for each layer, a column for each head."""
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
    """Draw some heads side by side, given as pairs of layer and head."""
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
    """Draw two runs on the same text and, if their tokens are equal, the difference."""
    with looks() as new:
        L, H = max(len(m.layers) for m in (one, other)), max(len(m.heads) for m in (one, other))
        differ = _comparable(one, other)
        parts = 2 if differ else 3
        side = _side(max(len(m.tokens) for m in (one, other)), 3 * L * H, H)
        wide, high = max(4.2, side * H + 1.6), side * L + 2.1
        down = parts * wide > WIDEST  # one below the other
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
    """Draw the map of one head at evenly spaced steps of training."""
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
    """Return a figure as the bytes of a file."""
    if kind not in FORMATS:
        raise InputError(f"a picture is .png or .svg, not .{kind}")
    buffer = io.BytesIO()
    with looks(), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from font"
        )  # such as an emoji, which is drawn as a box
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, dpi=110, metadata=metadata)
    return buffer.getvalue()


# -- one map -----------------------------------------------------------------------------------------------------------


def _side(tokens: int, panels: int, across: int) -> float:
    """Return the side of a panel in inches: room for a label of every token if there are few tokens, else small."""
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
    """Draw one head. Zero weight is blank and padding is hatched, so that both differ from small weights."""
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
            axis.set_ticks([])  # hidden labels would still take time to draw
    axes.tick_params(length=0 if len(maps.tokens) <= LABELLED else 2, pad=2)
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)
    for spine in axes.spines.values():
        spine.set_color("#c4c7ce")


def label(token: str, most: int = 14) -> str:
    """Return a token as a label: white space is visible, control characters are replaced."""
    visible = token.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣" if token.strip() == "" else "·")
    return _short("".join(c if c.isprintable() else "�" for c in visible), most)


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
    notes = []
    bins = len(text_edges(maps.real, maps.real, BINS)) - 1
    if bins < maps.real:
        notes.append(f"{maps.real:,} tokens in {bins} bins: keys added, queries averaged")
    if maps.cut:
        notes.append(f"cut to the block: {maps.cut:,} tokens at the end are not read")
    if maps.real < len(maps.tokens):
        notes.append("hatched: padding")
    broken = [check for check in maps.checks if check.broken]
    notes += [f"BROKEN: {check.name}: {check.says}" for check in broken]
    proved = sum(check.verdict == "proved" for check in maps.checks)
    notes.append(f"{proved} sanity checks proved, {len(broken)} broken")
    return "; ".join(notes)


# -- two maps ----------------------------------------------------------------------------------------------------------


def _comparable(one: Maps, other: Maps) -> str:
    """Return why two maps have no difference; an empty string if they have one."""
    if one.tokens != other.tokens:
        return "the two models split the text into different tokens"
    if (one.layers, one.heads) != (other.layers, other.heads):
        return "the two models have different layers or heads"
    return ""


def _difference(part: Any, one: Maps, other: Maps, side: float) -> None:
    edges = text_edges(one.real, len(one.tokens), BINS)
    change = binned(other.weights, edges) - binned(one.weights, edges)
    nowhere = binned(one.weights, edges) + binned(other.weights, edges) == 0
    most = float(max(np.abs(change).max(), 1e-6))
    panels = part.subplots(len(one.layers), len(one.heads), squeeze=False)
    drawn = None
    for row, layer in enumerate(one.layers):
        for column, head in enumerate(one.heads):
            axes = panels[row, column]
            visible = np.ma.masked_where(nowhere[row, column], change[row, column])
            drawn = axes.imshow(visible, cmap="PuOr_r", vmin=-most, vmax=most, interpolation="nearest")
            _frame(axes, one, edges, side, column == 0, row == len(one.layers) - 1)
            axes.set_title(f"layer {layer}, head {head}", fontsize=9, loc="left")
    bar = part.colorbar(drawn, ax=panels, shrink=0.7, aspect=30, pad=0.01)
    bar.set_label("weight, second run minus first", fontsize=8)
    part.suptitle("the difference\nsecond run minus first", fontsize=10, x=0.01, ha="left")
