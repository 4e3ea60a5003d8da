"""A search as a figure: a line for one setting, a heat map for two, several maps for three, else a panel each."""

from __future__ import annotations

import io
import itertools
import math
import warnings
from typing import TYPE_CHECKING, Any

from headtohead.figures.style import ARMS, BAND, GRID, INK, QUIET, looks, shortened
from headtohead.outcome.metrics import UNITS, better_way, figure_of, is_share
from headtohead.run.searches import SearchRecord, TrialRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST = ARMS[2]  # vermilion: distinct from the blues and yellows of the map, also for colour-blind readers
DOTS = ARMS[1]
COLOURS = "cividis"  # readable in grey and by colour-blind readers
ACROSS = 3  # panels in a row
NUMBERED = 14  # most columns with numbers in the cells
LABELLED = 20  # most labels along a side
LETTERS = 16  # of a value under a picture


def image(search: SearchRecord, kind: str) -> bytes:
    """png or svg."""
    buffer = io.BytesIO()
    with looks() as new, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        _draw(search, new).savefig(buffer, format=kind, dpi=130, metadata=metadata)
    return buffer.getvalue()


def _draw(search: SearchRecord, new: type[Figure]) -> Figure:
    varied = [path for path, values in search.over.items() if isinstance(values, dict) or len(values) > 1]
    lists = all(isinstance(search.over[path], list) for path in varied)
    if lists and len(varied) == 1:
        figure = _line(search, varied[0], new)
    elif lists and len(varied) in (2, 3):
        figure = _maps(search, varied, new)
    else:
        figure = _panels(search, varied, new)
    lost = sum(t.value is None for t in search.trials)
    trials = f"{len(search.trials)} trials" + (f", {lost} of them diverged or failed" if lost else "")
    corpus = shortened([str(search.corpus)], 40)[0]
    title = f"{search.task} on {corpus}: {trials}, seed {search.seed}"
    figure.suptitle(f"{title}\n{_measure(search)}", fontsize=10, x=0.01, ha="left")
    return figure


# -- numbers as text --------------------------------------------------------------------------------------------------


def _scaled(search: SearchRecord, value: float | None) -> float:
    if value is None:
        return math.nan
    return 100 * value if is_share(search.metric) else value


def _number(search: SearchRecord, value: float) -> str:
    return f"{value:.1f}" if is_share(search.metric) else f"{value:.3f}"


def _measure(search: SearchRecord) -> str:
    """validation/accuracy in %, higher is better"""
    figure = figure_of(search.metric)
    unit = "%" if is_share(search.metric) else UNITS[figure]
    return search.metric + (f" in {unit}" if unit else "") + f", {better_way(search.metric)} is better"


def _names(values: list[Any]) -> list[str]:
    return shortened([f"{v:g}" if isinstance(v, float) else str(v) for v in values], LETTERS)


# -- one setting, or many ----------------------------------------------------------------------------------------------


def _line(search: SearchRecord, path: str, new: type[Figure]) -> Figure:
    figure = new(figsize=(max(5.2, 0.7 * len(search.over[path]) + 2), 3.8), layout="constrained")
    axes = figure.subplots()
    _against(axes, search, path, joined=True)
    axes.set_ylabel(search.metric)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _panels(search: SearchRecord, varied: list[str], new: type[Figure]) -> Figure:
    across = 2 if len(varied) == 4 else min(ACROSS, len(varied))
    rows = math.ceil(len(varied) / across)
    figure = new(figsize=(max(5.2, 3.3 * across + 0.8), 3.1 * rows + 1), layout="constrained")
    panels = list(figure.subplots(rows, across, sharey=True, squeeze=False).flat)
    for axes, path in itertools.zip_longest(panels, varied):
        if path is None:
            axes.set_visible(False)
        else:
            _against(axes, search, path, joined=False)
    figure.supylabel(search.metric, fontsize=10, color=QUIET)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _against(axes: Any, search: SearchRecord, path: str, joined: bool) -> None:
    """Draw every trial's value against one setting; a trial without a value is a cross at the bottom."""
    over = search.over[path]
    listed = isinstance(over, list)

    def place(trial: TrialRecord) -> Any:
        return over.index(trial.settings[path]) if listed else trial.settings[path]

    trials = sorted(search.trials, key=place)
    there = [t for t in trials if t.value is not None]
    x, y = [place(t) for t in there], [_scaled(search, t.value) for t in there]
    numbers = listed and all(isinstance(v, int | float) and not isinstance(v, bool) for v in over)
    axes.plot(x, y, "o", ls="-" if joined and numbers else "none", color=DOTS, ms=6, alpha=1 if joined else 0.75)
    lost = [place(t) for t in trials if t.value is None]
    if lost:
        foot = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 3}
        axes.plot(lost, [0.02] * len(lost), "x", color=QUIET, ms=7, mew=1.5, label="diverged or failed", **foot)
    chosen = search.best
    best = _scaled(search, chosen.value)
    axes.plot([place(chosen)], [best], "*", color=BEST, ms=15, mec="white", mew=0.8, zorder=4, label="chosen")
    if joined:
        above = best >= max(y)
        axes.annotate(_number(search, best), (place(chosen), best), (0, 9 if above else -9), textcoords="offset points")
        axes.texts[-1].set(ha="center", va="bottom" if above else "top", color=BEST, fontsize=10)
    axes.margins(y=0.18 if joined else 0.08)
    if listed:
        _label(axes.xaxis, over, room=max(44, 7 * len(over)) if joined else 28)
        axes.set_xlim(-0.5, len(over) - 0.5)
    elif over["log"]:
        low, high = over["low"], over["high"]
        powers = [10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
        ticks = [low, *(x for x in powers if 2 * low <= x <= high / 2), high]
        axes.set_xscale("log")
        axes.set_xlim(low / 1.1, high * 1.1)
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.set_xticks([], minor=True)
    else:
        beside = 0.04 * (over["high"] - over["low"])
        axes.set_xlim(over["low"] - beside, over["high"] + beside)
        axes.locator_params(axis="x", nbins=6, integer=isinstance(over["low"], int))
    axes.set_xlabel(path)
    axes.grid(color=GRID)
    axes.spines[["top", "right"]].set_visible(False)


def _label(axis: Any, values: list[Any], room: int | None = None) -> None:
    """Label the ticks, slanted if the labels are long, and only as many as fit."""
    names, every = _names(values), math.ceil(len(values) / LABELLED)
    slant = room is not None and len(names) * (1 + max(map(len, names))) > room
    look: Any = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if slant else {}
    axis.set_ticks(range(0, len(values), every), names[::every], **look)


# -- two settings, or three --------------------------------------------------------------------------------------------


def _maps(search: SearchRecord, varied: list[str], new: type[Figure]) -> Figure:
    """Draw heat maps: the first setting down, the second across, a map for each value of the third."""
    import numpy as np
    from matplotlib.patches import Rectangle

    down, across, *third = varied
    rows, columns = search.over[down], search.over[across]
    sheets = search.over[third[0]] if third else [None]
    values = np.full((len(sheets), len(rows), len(columns)), math.nan)
    lost = np.full(values.shape, "", object)  # why there is no figure
    for trial in search.trials:
        at = trial.settings
        cell = sheets.index(at[third[0]]) if third else 0, rows.index(at[down]), columns.index(at[across])
        values[cell], lost[cell] = _scaled(search, trial.value), trial.status
    chosen = np.nanargmin if better_way(search.metric) == "lower" else np.nanargmax
    best = values.flat[chosen(values)]
    at = search.best.settings
    star = (sheets.index(at[third[0]]) if third else 0, rows.index(at[down]), columns.index(at[across]))

    per_row = min(ACROSS, len(sheets))
    high = math.ceil(len(sheets) / per_row)
    wide, tall = min(5.5, max(2.0, 0.78 * len(columns))), min(6.0, max(1.3, 0.5 * len(rows)))
    figure = new(figsize=(per_row * wide + 2.6, high * (tall + 0.75) + 0.9), layout="constrained")
    panels = figure.subplots(high, per_row, squeeze=False, sharex=True, sharey=True)
    low, top, cut = _limits(values[np.isfinite(values)], best)
    drawn: Any = None
    for n, axes in enumerate(panels.flat):
        if n >= len(sheets):
            axes.set_visible(False)
            continue
        lower = better_way(search.metric) == "lower"
        drawn = axes.imshow(values[n], cmap=COLOURS + ("_r" if lower else ""), vmin=low, vmax=top, aspect="auto")
        _cells(axes, search, values[n], lost[n], drawn, star[1:] if star[0] == n else None)
        _label(axes.xaxis, columns, room=int(12 * wide))
        _label(axes.yaxis, rows)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_facecolor(BAND)
        if third:
            axes.set_title(f"{third[0]} = {_names(sheets)[n]}", fontsize=10, loc="left")
        if n % per_row == 0:
            axes.set_ylabel(down)
        if n // per_row == high - 1 or n + per_row >= len(sheets):
            axes.set_xlabel(across)
            axes.tick_params(labelbottom=True)
    figure.colorbar(drawn, ax=list(panels.flat), shrink=0.9, extend=cut)
    frame = Rectangle((0, 0), 1, 1, fill=False, ec=BEST, lw=2.5, label="chosen")
    figure.legend(handles=[frame], loc="outside lower center", frameon=False, fontsize=9)
    return figure


def _limits(values: Any, best: float) -> tuple[float, float, str]:
    """Limits of the colours, and which of them is cut off. Values more than three times as far from the best as the
    median get the last colour, so that one bad trial does not hide the differences of the others."""
    import numpy as np

    reach = 3 * abs(float(np.median(values)) - best) or math.inf
    low, high = max(float(values.min()), best - reach), min(float(values.max()), best + reach)
    cut = "min" if low > values.min() else "max" if high < values.max() else "neither"
    return low, high, cut


def _cells(axes: Any, search: SearchRecord, values: Any, lost: Any, drawn: Any, star: tuple[int, int] | None) -> None:
    """Write a number into every cell in a contrasting colour, and frame the chosen one."""
    import numpy as np
    from matplotlib.patches import Rectangle

    for (row, column), value in np.ndenumerate(values):
        mine = (row, column) == star
        if mine:
            frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, ec=BEST, lw=3.5, zorder=3, clip_on=False)
            axes.add_patch(frame)
        if len(values[0]) > NUMBERED:
            continue
        text = _number(search, value) if math.isfinite(value) else lost[row, column]
        r, g, b, _ = drawn.to_rgba(value) if math.isfinite(value) else (1.0, 1.0, 1.0, 1.0)
        dark = 0.299 * r + 0.587 * g + 0.114 * b < 0.5
        colour = "white" if dark else INK if math.isfinite(value) else QUIET
        weight = "bold" if mine else "normal"
        axes.text(column, row, text, ha="center", va="center", fontsize=9, color=colour, weight=weight)
