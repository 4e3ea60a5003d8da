"""Draws the puzzles. Colours are safe for colour-blind readers, and nothing is shown by colour alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.disk.writing import write_whole
from headtohead.errors import InputError
from headtohead.figures.style import ARMS, GRID, INK, QUIET, looks
from headtohead.puzzles.reach import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headtohead.puzzles.base import Measured

BLUE, ORANGE = ARMS[1], ARMS[2]
HEAT = "Blues"
FORMATS = (".png", ".svg", ".pdf")
STYLE = {"axes.titlesize": 10, "axes.titlecolor": INK, "ytick.color": QUIET}


def save(figure: Figure, file: str | Path) -> Path:
    """Write a figure without a date, so that the same figure gives the same bytes."""
    path = Path(file)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"--out {path.name} has no known format: end the name with {', '.join(FORMATS)}")
    metadata = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    try:
        with looks(STYLE):
            drawn = io.BytesIO()
            figure.savefig(drawn, format=path.suffix.lower()[1:], dpi=110, metadata=metadata)
        write_whole(path, drawn.getvalue())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; give another path") from None
    return path


# -- a query and its keys ------------------------------------------------------------------------------------------


def keys(figure: Figure, keys: Array, query: Array, measured: Measured, before: Array | None = None) -> None:
    """Left: the keys by their score; right: their weights and the target."""
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    points = np.vstack([keys, *([] if before is None else [before])])
    x, y = _plane(points, query)
    weights = measured.weights[0]
    scores = x[: len(keys)]
    top, spread = scores.max(), float(np.ptp(x))
    zero = not np.any(query)
    corners = _hull(np.column_stack([scores, y[: len(keys)]]))
    left.fill(*corners.T, facecolor="none", edgecolor=QUIET, lw=0.8, ls=(0, (1, 2)), zorder=1)
    if not zero and 1.8 < spread < 30:  # otherwise the strip would fill the plot or be too thin
        left.axvspan(top - 1, top, color=GRID, alpha=0.6, lw=0, zorder=0)
        at: Any = ("data", "axes fraction")
        beside: Any = {"xycoords": at, "textcoords": "offset points", "ha": "right", "color": QUIET, "fontsize": 8}
        left.annotate("score 1 less,\nweight 1/e", (top - 1, 0.02), (-4, 0), **beside)
    if before is not None:
        left.plot(x[-1], y[-1], "o", mfc="white", mec=QUIET, ms=9)
        _label(left, x[-1], y[-1], "k2 before", QUIET, 60)
        arrow = {"arrowstyle": "->", "color": QUIET, "shrinkA": 6, "shrinkB": 8}
        left.annotate("", (x[2], y[2]), (x[-1], y[-1]), arrowprops=arrow)
    areas = 60 + 700 * weights  # square points
    left.scatter(scores, y[: len(keys)], s=areas, color=BLUE, alpha=0.85, lw=0, zorder=3)
    for n in range(min(len(keys), 24)):
        _label(left, scores[n], y[n], f"k{n}", INK, areas[n])
    left.set_xlabel("first principal axis (the query is zero: all scores are 0)" if zero else "score <q, k>")
    left.set_ylabel("orthogonal to the query")
    left.set_title("keys, sized by weight; dotted: their hull", loc="left")
    left.margins(0.16)
    _bars(right, measured)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.grid(color=GRID)


def _plane(points: Array, query: Array) -> tuple[Array, Array]:
    """The scores of the points, and their coordinate along the orthogonal direction with the largest variance."""
    moved = points - points.mean(axis=0)
    length = np.linalg.norm(query)
    if length > 0:
        unit = query / length
        rest = moved - np.outer(moved @ unit, unit)
        axis = np.linalg.svd(rest, full_matrices=False)[2][0]
        return points @ query, points @ axis if np.any(rest) else 0 * (points @ query)
    axes = np.linalg.svd(moved, full_matrices=False)[2]
    across = moved @ axes[1] if len(axes) > 1 else np.zeros(len(points))
    return moved @ axes[0], across


def _hull(points: Array) -> Array:
    """The corners of the convex hull of points in the plane, in order."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return points[ConvexHull(points).vertices]
    except QhullError:  # the points lie on a line
        return points[np.lexsort(points.T)[[0, -1]]]


def _bars(axes: Axes, measured: Measured) -> None:
    weights, target = measured.weights[0], measured.target[0]
    at = np.arange(len(weights))
    axes.bar(at, weights, width=0.62, color=BLUE, label="weight")
    axes.bar(at, target, width=0.82, fill=False, ec=ORANGE, lw=1.8, label="target")
    if len(weights) <= 8:
        for n, w in enumerate(weights):
            _label(axes, n, max(w, target[n]), f"{w:.3f}", INK, 0)
        axes.set_xticks(at, [f"k{n}" for n in at])
    axes.set_ylim(0, 1.42 * max(weights.max(), target.max()))
    axes.set_title(f"attention; {_share(measured)} in the wrong place", loc="left")
    axes.legend(frameon=False, loc="upper right")


def matrices(figure: Figure, scores: Array, measured: Measured) -> None:
    """Left: scores; right: weights. Each row is one query."""
    left, right = figure.subplots(1, 2)
    wrong = f"{_share(measured)} in the wrong place"
    for axes, values, title in ((left, scores, "scores Q·Kᵀ"), (right, measured.weights, f"weights; {wrong}")):
        size = np.abs(values).max() or 1.0
        low = -size if values.min() < 0 else 0.0
        image = axes.imshow(values, cmap="PuOr_r" if low else HEAT, vmin=low, vmax=size)
        for (i, j), value in np.ndenumerate(values) if values.size <= 64 else ():
            text, colour = f"{value:.3g}" if low else f"{value:.3f}", "white" if abs(value) > 0.6 * size else INK
            axes.text(j, i, text, ha="center", va="center", color=colour)
        n = len(values)
        axes.set_xticks(range(n), [f"k{j}" for j in range(n)])
        axes.set_yticks(range(n), [f"q{i}" for i in range(n)])
        axes.set_title(title, loc="left")
        figure.colorbar(image, ax=axes, shrink=0.8).outline.set_visible(False)


# -- places ----------------------------------------------------------------------------------------------------------


def places(figure: Figure, measured: Measured, back: Array, scores: Array | None) -> None:
    """Left: the attention map of one text; right: the weights of the last query by distance, and the scores."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.35])
    _map(left, measured.weights, figure)
    i, j = np.nonzero((measured.target == 1.0) & (measured.target.sum(axis=1, keepdims=True) == 1.0))
    left.plot(j, i, "o", ms=2.2, color=ORANGE, label="target")
    left.legend(frameon=False, loc="upper right")
    last, n = measured.weights[-1][::-1], len(measured.weights)
    wanted = n - 1 - int(measured.target[-1].argmax())
    right.bar(np.arange(n), last, width=0.8, color=BLUE)
    right.axvline(wanted, color=ORANGE, lw=1.6, ls=(0, (4, 3)))
    beside: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "color": ORANGE}
    late = wanted > n / 2
    right.annotate("target", (wanted, 0.95), (-5 if late else 5, 0), ha="right" if late else "left", **beside)
    right.set_ylim(0, 1.2 * max(last.max(), 0.1))
    right.set_xlabel("tokens back")
    right.set_ylabel("weight", color=BLUE)
    right.set_title(f"last token; worst query: {_share(measured)} in the wrong place", loc="left")
    right.spines["top"].set_visible(False)
    if scores is not None:
        curve = right.twinx()
        curve.plot(back, scores, color=INK, lw=1)
        curve.set_ylabel("score", color=INK)
        curve.spines["top"].set_visible(False)
        low, high = scores.min(), scores.max()
        curve.set_ylim(low - 0.05 * (high - low), high + 0.2 * (high - low))  # keeps the curve below the label


def _map(axes: Axes, weights: Array, figure: Figure | None = None, title: str = "attention in a random text") -> None:
    image = axes.imshow(weights, cmap=HEAT, vmin=0, vmax=1)
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    axes.set_title(title, loc="left")
    if figure is not None:
        figure.colorbar(image, ax=axes, shrink=0.7).outline.set_visible(False)


# -- contents --------------------------------------------------------------------------------------------------------


def copying(figure: Figure, measured: Measured, items: int, width: int) -> None:
    """Left: the weights of the last token in one text per item; right: the worst share for each item over all texts."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.1])
    _map(left, measured.weights, figure, "one text per row")
    left.set_ylabel("text = item asked for")
    i, j = np.nonzero(measured.target)
    left.plot(j, i, "s", ms=7, mfc="none", mec=ORANGE, mew=1.2, label="asked for")
    left.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.55, 1.0), borderpad=0)
    worst = [measured.plot_data["share"][n::items].min() for n in range(items)]
    right.barh(range(items), worst, color=BLUE)
    right.set_xlim(0, 1.02)
    right.set_ylim(items - 0.5, -0.5)
    right.set_xlabel("share of the attention on the item asked for, worst text")
    right.set_ylabel("item")
    right.set_title(f"{items} items in {width} dimensions", loc="left")
    right.spines[["top", "right"]].set_visible(False)


def voting(figure: Figure, measured: Measured, tilt: float, bound: float) -> None:
    """Left: the share of b in the head's output against the true share; right: the weights in the closest vote."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.3])
    shares = measured.plot_data["shares"]
    true = np.linspace(0, 1, len(shares))
    wrong = (shares > 0.5) != (true > 0.5)
    left.fill_between([0, 0.5], 0.5, 1, color=GRID, lw=0)
    left.fill_between([0.5, 1], 0, 0.5, color=GRID, lw=0)
    left.plot([0, 1], [0, 1], color=QUIET, lw=1, ls=(0, (4, 3)))
    left.plot(true[~wrong], shares[~wrong], "o", color=BLUE, ms=6, label="right")
    left.plot(true[wrong], shares[wrong], "X", color=ORANGE, ms=9, label="wrong")
    left.set_xlabel("share of b among the tokens")
    left.set_ylabel("share of b in the head's output")
    left.set_title(f"tilt {tilt:.3g}; right within ±{bound:.3g}", loc="left")
    left.legend(frameon=False, loc="upper left")
    left.set_aspect("equal")
    ids, weights = measured.plot_data["ids"], measured.weights[0]
    right.bar(range(len(ids)), weights, color=[BLUE if b else ARMS[5] for b in ids])
    right.axhline(1 / len(ids), color=INK, lw=1, ls=(0, (4, 3)))
    right.set_xticks(range(len(ids)), ["b" if b else "a" for b in ids], fontsize=10 if len(ids) < 40 else 5)
    right.set_ylabel("weight")
    right.set_ylim(0, 1.3 * weights.max())
    result = f"a has {weights[ids == 0].sum():.3f} of the attention, b {weights[ids == 1].sum():.3f}"
    right.set_title(f"the closest vote: {result}", loc="left")
    right.spines[["top", "right"]].set_visible(False)


def layers(figure: Figure, measured: Measured) -> None:
    """The attention maps of both layers on one text; squares mark where the second layer must attend."""
    data = measured.plot_data
    ids, asked, place = data["ids"], data["asked"], data["place"]
    names = ["⊢", *"abcdefghijklmnopqrstuvwxyz"]
    words = [names[i] for i in ids]
    left, right = figure.subplots(1, 2)
    _map(left, data["first"], title="layer 1: the previous token")
    _map(right, measured.weights, figure, "layer 2: where the previous token was this one")
    right.plot(place, asked, "s", ms=6, mfc="none", mec=ORANGE, mew=1.3, label="position of the answer")
    right.legend(frameon=False, loc="upper right")
    for axes in (left, right):
        axes.set_xticks(range(len(ids)), words, fontsize=8)
        axes.set_yticks(range(len(ids)), words, fontsize=8)


def _label(axes: Axes, x: float, y: float, text: str, colour: str, area: float) -> None:
    """Write a label above a dot of `area` square points."""
    above: Any = {"xytext": (0, 4 + (area / np.pi) ** 0.5), "textcoords": "offset points", "ha": "center"}
    axes.annotate(text, (x, y), color=colour, zorder=4, **above)


def _share(measured: Measured) -> str:
    d = measured.distance
    return "nothing" if d < 1e-12 else f"{100 * d:.1f} %" if d >= 5e-4 else f"{d:.0e}"
