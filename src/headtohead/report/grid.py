"""A search as a picture: a line for one setting, a heat map for two, several for three, a panel for each of more."""

from __future__ import annotations

import io
import itertools
import math
import warnings
from typing import TYPE_CHECKING, Any

from headtohead.metrics import UNITS, better_way, figure_of
from headtohead.report.figures import ARMS, BAND, GRID, INK, QUIET, looks, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST = ARMS[2]  # vermilion: apart from every blue and yellow of the map, also for those who see no red
DOTS = ARMS[1]
COLOURS = "cividis"  # its order is the same to every eye, and in grey
ACROSS = 3  # panels in a row
NUMBERED = 14  # columns: with more there is no room for numbers
LABELLED = 20  # values along a side; of more, some
LETTERS = 16  # of a value under a picture

Said = dict[str, Any]  # what search.json says


def image(said: Said, kind: str) -> bytes:
    """png or svg."""
    buffer = io.BytesIO()
    with looks() as new, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        _draw(said, new).savefig(buffer, format=kind, dpi=130, metadata=metadata)
    return buffer.getvalue()


def _draw(said: Said, new: type[Figure]) -> Figure:
    varied = [path for path, values in said["over"].items() if isinstance(values, dict) or len(values) > 1]
    lists = all(isinstance(said["over"][path], list) for path in varied)
    if lists and len(varied) == 1:
        figure = _line(said, varied[0], new)
    elif lists and len(varied) in (2, 3):
        figure = _maps(said, varied, new)
    else:
        figure = _panels(said, varied, new)
    lost = sum(t["value"] is None for t in said["trials"])
    trials = f"{len(said['trials'])} trials" + (f", {lost} of them diverged or failed" if lost else "")
    corpus = shortened([str(said["corpus"])], 40)[0]
    title = f"{said['task']} on {corpus}: {trials}, seed {said['seed']}"
    figure.suptitle(f"{title}\n{_measure(said)}", fontsize=10, x=0.01, ha="left")
    return figure


# -- figures as they are read ------------------------------------------------------------------------------------------


def _scaled(said: Said, value: float | None) -> float:
    if value is None:
        return math.nan
    return 100 * value if figure_of(said["metric"]) in ("accuracy", "macro_f1") else value


def _number(said: Said, value: float) -> str:
    return f"{value:.1f}" if figure_of(said["metric"]) in ("accuracy", "macro_f1") else f"{value:.3f}"


def _measure(said: Said) -> str:
    """validation/accuracy in %, higher is better"""
    figure = figure_of(said["metric"])
    unit = "%" if figure in ("accuracy", "macro_f1") else UNITS[figure]
    return said["metric"] + (f" in {unit}" if unit else "") + f", {better_way(said['metric'])} is better"


def _names(values: list[Any]) -> list[str]:
    return shortened([f"{v:g}" if isinstance(v, float) else str(v) for v in values], LETTERS)


def _chosen(said: Said) -> Said:
    return next(t for t in said["trials"] if t["number"] == said["chosen"])


# -- one setting, or many ----------------------------------------------------------------------------------------------


def _line(said: Said, path: str, new: type[Figure]) -> Figure:
    figure = new(figsize=(max(5.2, 0.7 * len(said["over"][path]) + 2), 3.8), layout="constrained")
    axes = figure.subplots()
    _against(axes, said, path, joined=True)
    axes.set_ylabel(said["metric"])
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _panels(said: Said, varied: list[str], new: type[Figure]) -> Figure:
    across = 2 if len(varied) == 4 else min(ACROSS, len(varied))
    rows = math.ceil(len(varied) / across)
    figure = new(figsize=(max(5.2, 3.3 * across + 0.8), 3.1 * rows + 1), layout="constrained")
    panels = list(figure.subplots(rows, across, sharey=True, squeeze=False).flat)
    for axes, path in itertools.zip_longest(panels, varied):
        if path is None:
            axes.set_visible(False)
        else:
            _against(axes, said, path, joined=False)
    figure.supylabel(said["metric"], fontsize=10, color=QUIET)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _against(axes: Any, said: Said, path: str, joined: bool) -> None:
    """Every trial's figure against one setting; where it has none, a cross at the foot."""
    over = said["over"][path]
    listed = isinstance(over, list)

    def place(trial: Said) -> Any:
        return over.index(trial["settings"][path]) if listed else trial["settings"][path]

    trials = sorted(said["trials"], key=place)
    there = [t for t in trials if t["value"] is not None]
    x, y = [place(t) for t in there], [_scaled(said, t["value"]) for t in there]
    numbers = listed and all(isinstance(v, int | float) and not isinstance(v, bool) for v in over)
    axes.plot(x, y, "o", ls="-" if joined and numbers else "none", color=DOTS, ms=6, alpha=1 if joined else 0.75)
    lost = [place(t) for t in trials if t["value"] is None]
    if lost:
        foot = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 3}
        axes.plot(lost, [0.02] * len(lost), "x", color=QUIET, ms=7, mew=1.5, label="diverged or failed", **foot)
    chosen = _chosen(said)
    best = _scaled(said, chosen["value"])
    axes.plot([place(chosen)], [best], "*", color=BEST, ms=15, mec="white", mew=0.8, zorder=4, label="chosen")
    if joined:
        above = best >= max(y)
        axes.annotate(_number(said, best), (place(chosen), best), (0, 9 if above else -9), textcoords="offset points")
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
    """Values at their places, at a slant where so many letters have no room side by side, and not more than fit."""
    names, every = _names(values), math.ceil(len(values) / LABELLED)
    slant = room is not None and len(names) * (1 + max(map(len, names))) > room
    look: Any = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if slant else {}
    axis.set_ticks(range(0, len(values), every), names[::every], **look)


# -- two settings, or three --------------------------------------------------------------------------------------------


def _maps(said: Said, varied: list[str], new: type[Figure]) -> Figure:
    """The first setting down, the second across, the third from map to map."""
    import numpy as np
    from matplotlib.patches import Rectangle

    down, across, *third = varied
    rows, columns = said["over"][down], said["over"][across]
    sheets = said["over"][third[0]] if third else [None]
    values = np.full((len(sheets), len(rows), len(columns)), math.nan)
    lost = np.full(values.shape, "", object)  # why there is no figure
    for trial in said["trials"]:
        at = trial["settings"]
        cell = sheets.index(at[third[0]]) if third else 0, rows.index(at[down]), columns.index(at[across])
        values[cell], lost[cell] = _scaled(said, trial["value"]), trial["status"]
    chosen = np.nanargmin if better_way(said["metric"]) == "lower" else np.nanargmax
    best = values.flat[chosen(values)]
    at = _chosen(said)["settings"]
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
        lower = better_way(said["metric"]) == "lower"
        drawn = axes.imshow(values[n], cmap=COLOURS + ("_r" if lower else ""), vmin=low, vmax=top, aspect="auto")
        _cells(axes, said, values[n], lost[n], drawn, star[1:] if star[0] == n else None)
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
    """Ends of the colours, and which of them is cut off. One trial gone wrong must not make all the others look alike:
    what is more than three times as far from the best as the middle one gets the last colour."""
    import numpy as np

    reach = 3 * abs(float(np.median(values)) - best) or math.inf
    low, high = max(float(values.min()), best - reach), min(float(values.max()), best + reach)
    cut = "min" if low > values.min() else "max" if high < values.max() else "neither"
    return low, high, cut


def _cells(axes: Any, said: Said, values: Any, lost: Any, drawn: Any, star: tuple[int, int] | None) -> None:
    """A number in every cell, dark on light and light on dark; a frame around the chosen one."""
    import numpy as np
    from matplotlib.patches import Rectangle

    for (row, column), value in np.ndenumerate(values):
        mine = (row, column) == star
        if mine:
            frame = Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, ec=BEST, lw=3.5, zorder=3, clip_on=False)
            axes.add_patch(frame)
        if len(values[0]) > NUMBERED:
            continue
        text = _number(said, value) if math.isfinite(value) else lost[row, column]
        r, g, b, _ = drawn.to_rgba(value) if math.isfinite(value) else (1.0, 1.0, 1.0, 1.0)
        dark = 0.299 * r + 0.587 * g + 0.114 * b < 0.5
        colour = "white" if dark else INK if math.isfinite(value) else QUIET
        weight = "bold" if mine else "normal"
        axes.text(column, row, text, ha="center", va="center", fontsize=9, color=colour, weight=weight)
