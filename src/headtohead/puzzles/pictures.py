"""The puzzles as pictures. Colours are told apart without red and green; what colour says, place or text says too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.errors import InputError
from headtohead.puzzles.base import Measured, Puzzle
from headtohead.puzzles.reach import Array
from headtohead.report.figures import ARMS, GRID, INK, QUIET, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE = ARMS[1], ARMS[2]
HEAT = "Blues"
FORMATS = (".png", ".svg", ".pdf")


TITLES = {"axes.titlesize": 10, "axes.titlecolor": INK, "ytick.color": QUIET}


def drawn(puzzle: Puzzle, answer: dict[str, Array], measured: Measured) -> Figure:
    with looks(TITLES) as new:
        figure = new(figsize=(9.2, 4.0), layout="constrained")
        figure.suptitle(f"{puzzle.number}  {puzzle.title}", x=0.01, ha="left", fontsize=12, fontweight="bold")
        puzzle.draw(figure, answer, measured)
    return figure


def save(figure: Figure, file: str | Path) -> Path:
    path = Path(file)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"--out {path.name} has no format that is known: end the name with {', '.join(FORMATS)}")
    dated = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    try:
        with looks(TITLES):
            figure.savefig(path, dpi=110, metadata=dated)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; give another place") from None
    return path


# -- a query and its keys ------------------------------------------------------------------------------------------


def keys(figure: Figure, keys: Array, query: Array, measured: Measured, before: Array | None = None) -> None:
    """The keys by their score along the query, and their weights."""
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    points = np.vstack([keys, *([] if before is None else [before])])
    x, y = _plane(points, query)
    weights = measured.weights[0]
    scores = x[: len(keys)]
    top, spread = scores.max(), float(np.ptp(x))
    zero = not np.any(query)
    corners = _hull(np.column_stack([scores, y[: len(keys)]]))
    left.fill(*corners.T, facecolor="none", edgecolor=QUIET, lw=0.8, ls=(0, (1, 2)), zorder=1)
    if not zero and 1.8 < spread < 30:  # otherwise the strip is all there is to see, or too thin
        left.axvspan(top - 1, top, color=GRID, alpha=0.6, lw=0, zorder=0)
        at: Any = ("data", "axes fraction")
        said = "score 1 less,\nweight 1/e"
        left.annotate(
            said, (top - 1, 0.02), (-4, 0), xycoords=at, textcoords="offset points", ha="right", color=QUIET, fontsize=8
        )
    if before is not None:
        left.plot(x[-1], y[-1], "o", mfc="white", mec=QUIET, ms=9)
        _label(left, x[-1], y[-1], "k2 before", QUIET, 60)
        left.annotate(
            "",
            (x[2], y[2]),
            (x[-1], y[-1]),
            arrowprops={"arrowstyle": "->", "color": QUIET, "shrinkA": 6, "shrinkB": 8},
        )
    areas = 60 + 700 * weights  # in square points
    left.scatter(scores, y[: len(keys)], s=areas, color=BLUE, alpha=0.85, lw=0, zorder=3)
    for n in range(min(len(keys), 24)):
        _label(left, scores[n], y[n], f"k{n}", INK, areas[n])
    left.set_xlabel(
        "first principal axis (the query is zero: all score 0)" if zero else "score <q, k>, along the query"
    )
    left.set_ylabel("across the query")
    left.set_title("keys, as large as their weights; dotted: their hull", loc="left")
    left.margins(0.16)
    _bars(right, measured)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.grid(color=GRID)


def _plane(points: Array, query: Array) -> tuple[Array, Array]:
    """Scores, and across the query the direction in which the points differ most."""
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
    """The corners of the hull of points in the plane, in order (Andrew's monotone chain)."""

    def chain(ordered: list[Array]) -> list[Array]:
        corners: list[Array] = []
        for p in ordered:
            while len(corners) > 1:
                (ax, ay), (bx, by) = corners[-1] - corners[-2], p - corners[-2]
                if ax * by - ay * bx > 0:
                    break
                corners.pop()
            corners.append(p)
        return corners[:-1]

    ordered = sorted(points, key=lambda p: (p[0], p[1]))
    return np.array([*chain(ordered), *chain(ordered[::-1])]).reshape(-1, 2)


def _bars(axes: Axes, measured: Measured) -> None:
    weights, target = measured.weights[0], measured.target[0]
    at = np.arange(len(weights))
    axes.bar(at, weights, width=0.62, color=BLUE, label="weight")
    axes.bar(at, target, width=0.82, fill=False, ec=ORANGE, lw=1.8, label="wanted")
    if len(weights) <= 8:
        for n, w in enumerate(weights):
            axes.annotate(
                f"{w:.3f}", (n, max(w, target[n])), (0, 3), textcoords="offset points", ha="center", fontsize=9
            )
        axes.set_xticks(at, [f"k{n}" for n in at])
    axes.set_ylim(0, 1.42 * max(weights.max(), target.max()))
    axes.set_title(f"attention; {_share(measured)} in the wrong place", loc="left")
    axes.legend(frameon=False, loc="upper right")


def matrices(figure: Figure, scores: Array, measured: Measured) -> None:
    """Scores before softmax and weights after it, one row a query."""
    for axes, values, title in zip(
        figure.subplots(1, 2),
        (scores, measured.weights),
        ("scores Q·Kᵀ", f"weights; {_share(measured)} in the wrong place"),
        strict=True,
    ):
        size = np.abs(values).max() or 1.0
        low = -size if values.min() < 0 else 0.0
        image = axes.imshow(values, cmap="PuOr_r" if low else HEAT, vmin=low, vmax=size)
        for (i, j), value in np.ndenumerate(values) if values.size <= 64 else ():
            dark = abs(value) > 0.6 * size
            axes.text(
                j,
                i,
                f"{value:.3g}" if low else f"{value:.3f}",
                ha="center",
                va="center",
                color="white" if dark else INK,
            )
        n = len(values)
        axes.set_xticks(range(n), [f"k{j}" for j in range(n)])
        axes.set_yticks(range(n), [f"q{i}" for i in range(n)])
        axes.set_title(title, loc="left")
        figure.colorbar(image, ax=axes, shrink=0.8).outline.set_visible(False)


# -- places ----------------------------------------------------------------------------------------------------------


def places(figure: Figure, measured: Measured, back: Array, scores: Array | None) -> None:
    """The map of one text, and the last query's weights by distance, with the score as a curve where there is one."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.35])
    _map(left, measured.weights, figure)
    i, j = np.nonzero((measured.target == 1.0) & (measured.target.sum(axis=1, keepdims=True) == 1.0))
    left.plot(j, i, "o", ms=2.2, color=ORANGE, label="wanted")
    left.legend(frameon=False, loc="upper right")
    last, n = measured.weights[-1][::-1], len(measured.weights)
    wanted = n - 1 - int(measured.target[-1].argmax())
    right.bar(np.arange(n), last, width=0.8, color=BLUE)
    right.axvline(wanted, color=ORANGE, lw=1.6, ls=(0, (4, 3)))
    beside: Any = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "color": ORANGE}
    late = wanted > n / 2
    right.annotate("wanted", (wanted, 0.95), (-5 if late else 5, 0), ha="right" if late else "left", **beside)
    right.set_ylim(0, 1.2 * max(last.max(), 0.1))
    right.set_xlabel("tokens back")
    right.set_ylabel("weight", color=BLUE)
    right.set_title(f"the last token; at worst {_share(measured)} in the wrong place", loc="left")
    right.spines["top"].set_visible(False)
    if scores is not None:
        curve = right.twinx()
        curve.plot(back, scores, color=INK, lw=1)
        curve.set_ylabel("score", color=INK)
        curve.spines["top"].set_visible(False)
        low, high = scores.min(), scores.max()
        curve.set_ylim(low - 0.05 * (high - low), high + 0.2 * (high - low))  # its crests below the word above


def _map(axes: Axes, weights: Array, figure: Figure | None = None, title: str = "attention in a random text") -> None:
    image = axes.imshow(weights, cmap=HEAT, vmin=0, vmax=1)
    axes.set_xlabel("looked at")
    axes.set_ylabel("looks")
    axes.set_title(title, loc="left")
    if figure is not None:
        figure.colorbar(image, ax=axes, shrink=0.7).outline.set_visible(False)


# -- contents --------------------------------------------------------------------------------------------------------


def copying(figure: Figure, measured: Measured, things: int, width: int) -> None:
    """Which place every text looked at, in the order of what was asked; and how well over all texts."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.1])
    _map(left, measured.weights, figure, "a text a row")
    left.set_ylabel("text, and the thing it asks for")
    i, j = np.nonzero(measured.target)
    left.plot(j, i, "s", ms=7, mfc="none", mec=ORANGE, mew=1.2, label="asked for")
    left.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.55, 1.0), borderpad=0)
    worst = [measured.shown["share"][n::things].min() for n in range(things)]
    right.barh(range(things), worst, color=BLUE)
    right.set_xlim(0, 1.02)
    right.set_ylim(things - 0.5, -0.5)
    right.set_xlabel("share of the attention on the thing asked for, worst text")
    right.set_ylabel("thing")
    right.set_title(f"{things} things in {width} dimensions", loc="left")
    right.spines[["top", "right"]].set_visible(False)


def voting(figure: Figure, measured: Measured, tilt: float, bound: float) -> None:
    """The head's share of b against the true one; and the closest vote, token by token."""
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.3])
    shares = measured.shown["shares"]
    true = np.linspace(0, 1, len(shares))
    wrong = (shares > 0.5) != (true > 0.5)
    left.fill_between([0, 0.5], 0.5, 1, color=GRID, lw=0)
    left.fill_between([0.5, 1], 0, 0.5, color=GRID, lw=0)
    left.plot([0, 1], [0, 1], color=QUIET, lw=1, ls=(0, (4, 3)))
    left.plot(true[~wrong], shares[~wrong], "o", color=BLUE, ms=6, label="right")
    left.plot(true[wrong], shares[wrong], "X", color=ORANGE, ms=9, label="wrong")
    left.set_xlabel("b among the tokens")
    left.set_ylabel("b in the head's output")
    left.set_title(f"tilt {tilt:.3g}; right within ±{bound:.3g}", loc="left")
    left.legend(frameon=False, loc="upper left")
    left.set_aspect("equal")
    ids, weights = measured.shown["ids"], measured.weights[0]
    right.bar(range(len(ids)), weights, color=[BLUE if b else ARMS[5] for b in ids])
    right.axhline(1 / len(ids), color=INK, lw=1, ls=(0, (4, 3)))
    right.set_xticks(range(len(ids)), ["b" if b else "a" for b in ids], fontsize=10 if len(ids) < 40 else 5)
    right.set_ylabel("weight")
    right.set_ylim(0, 1.3 * weights.max())
    given = f"a has {weights[ids == 0].sum():.3f} of the attention, b {weights[ids == 1].sum():.3f}"
    right.set_title(f"the closest vote: {given}", loc="left")
    right.spines[["top", "right"]].set_visible(False)


def layers(figure: Figure, measured: Measured) -> None:
    """Both layers' maps on one text; squares where the second must look."""
    ids, asked, place = measured.shown["ids"], measured.shown["asked"], measured.shown["place"]
    names = ["⊢", *"abcdefghijklmnopqrstuvwxyz"]
    words = [names[i] for i in ids]
    left, right = figure.subplots(1, 2)
    _map(left, measured.shown["first"], title="layer 1: the token before")
    _map(right, measured.weights, figure, "layer 2: where the token before was this one")
    right.plot(place, asked, "s", ms=6, mfc="none", mec=ORANGE, mew=1.3, label="where the answer stands")
    right.legend(frameon=False, loc="upper right")
    for axes in (left, right):
        axes.set_xticks(range(len(ids)), words, fontsize=8)
        axes.set_yticks(range(len(ids)), words, fontsize=8)


def _label(axes: Axes, x: float, y: float, text: str, colour: str, area: float) -> None:
    """Above a dot of so many square points."""
    axes.annotate(
        text, (x, y), (0, 4 + (area / np.pi) ** 0.5), textcoords="offset points", ha="center", color=colour, zorder=4
    )


def _share(measured: Measured) -> str:
    d = measured.distance
    return "nothing" if d < 1e-12 else f"{100 * d:.1f} %" if d >= 5e-4 else f"{d:.0e}"
