"""The interactive page of attention maps: every head of one or two runs at the steps of training, in one HTML file.

Shapes: F steps, L layers, H heads, n bins (one for each token if there are few tokens).
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.errors import InputError
from headtohead.figures.policy import policy
from headtohead.interpret.bins import bin_edges, binned
from headtohead.interpret.maps import Maps
from headtohead.interpret.summary import numbers

ROOM = 3_000_000  # bytes of weights in a page; base64 adds a third, and the page stays under 5 MB
FEW = 400_000  # cells; up to here each has two bytes instead of one
MOST_BINS = 512
NUMBERS = ("entropy", "distance", "first", "previous", "self")


def page(films: Sequence[Sequence[Maps]]) -> str:
    """Return the page of one or two runs. Each is a list of maps of the same text in the order of training."""
    if not films or not all(len(film) for film in films):
        raise InputError("there are no maps to show: give at least one for each run")
    if len(films) > 2:
        raise InputError(f"a page shows one or two runs, not {len(films)}: leave some out")
    for film in films:
        _check(film)
    bins = _bins(films)
    levels = 65535 if _cells(films, bins) <= FEW else 255
    data = {
        "runs": [_run(film, bins, levels) for film in films],
        "numbers": NUMBERS,
        "levels": levels,
        "comparable": len(films) == 2 and _text(films[0][0]) == _text(films[1][0]),
    }
    return _template().render(names=[film[0].name for film in films], data=data)


@lru_cache(maxsize=1)
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(
        loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["policy"] = policy
    return environment.get_template("attention.html")


def _check(film: Sequence[Maps]) -> None:
    first, steps = film[0], [maps.step for maps in film]
    for maps in film:
        if (maps.tokens, maps.layers, maps.heads) != (first.tokens, first.layers, first.heads):
            raise InputError(f"the steps of {first.name} must show the same tokens, layers and heads")
    known = [step for step in steps if step is not None]
    if len(steps) > 1 and (len(known) < len(steps) or known != sorted(set(known))):
        raise InputError(f"the steps of {first.name} must be known and in order, not {steps}")


def _text(maps: Maps) -> tuple[str, ...]:
    return maps.tokens[: maps.real]


# -- bins --------------------------------------------------------------------------------------------------------------


def _bins(films: Sequence[Sequence[Maps]]) -> int:
    """Return the largest number of bins that fits. Zeros compress well, so a causal map gets more bins."""
    count = [len(film) * math.prod(film[0].weights.shape[:2]) for film in films]
    bins = max(2, math.isqrt(ROOM // sum(count)))
    longest = max(len(film[0].tokens) for film in films)
    if bins < min(longest, MOST_BINS):
        filled = (_filled(film[0], bins) * n for film, n in zip(films, count, strict=True))
        bins = max(bins, math.isqrt(int(ROOM / sum(filled))))
    return min(bins, MOST_BINS)


def _filled(maps: Maps, bins: int) -> float:
    """Return the share of cells with weight from any head."""
    anywhere = np.any(maps.weights, axis=(0, 1)).astype(np.float32)
    return max(0.01, float(np.mean(binned(anywhere, _edges(maps, bins)) > 0)))


def _cells(films: Sequence[Sequence[Maps]], bins: int) -> int:
    return sum(
        len(film) * math.prod(film[0].weights.shape[:2]) * (len(_edges(film[0], bins)) - 1) ** 2 for film in films
    )


def _edges(maps: Maps, bins: int) -> np.ndarray:
    """Return the edges of the bins. No bin has both text and padding."""
    text = bin_edges(maps.real, bins)
    padding = len(maps.tokens) - maps.real
    if not padding:
        return text
    return np.concatenate([text, maps.real + bin_edges(padding, max(bins - maps.real, bins // 16))[1:]])


# -- the data of the page ----------------------------------------------------------------------------------------------


def _run(film: Sequence[Maps], bins: int, levels: int) -> dict[str, Any]:
    first = film[0]
    edges = _edges(first, bins)
    tops, cells, frames = [], [], []
    for maps in film:
        measures = []
        for layer in maps.weights:
            top, cell = _coded(binned(layer, edges), levels)
            tops.append(top.tobytes())
            cells.append(cell.tobytes())
            measures.append([_numbers(head[: maps.real, : maps.real]) for head in layer])
        answers = [(name, p if math.isfinite(p) else None) for name, p in maps.answers]
        frames.append({"step": maps.step, "answers": answers, "checks": maps.checks, "numbers": measures})
    return {
        "name": first.name,
        "task": first.task,
        "layers": first.layers,
        "heads": first.heads,
        "tokens": [first.tokens[edge] for edge in edges[:-1]],  # the first token of each bin
        "edges": edges.tolist(),
        "real": first.real,
        "cut": first.cut,
        "unknown": first.unknown,
        "frames": frames,
        "tops": _packed(tops),  # (F, L, H, n)
        "cells": _packed(cells),  # (F, L, H, n, n)
    }


def _coded(weights: np.ndarray, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest weight of each row, and each cell as levels · √(weight / largest).

    The root keeps small weights apart, and only zero becomes zero. A NaN makes its whole row NaN in the page.
    """
    with np.errstate(invalid="ignore"):
        top = weights.max(axis=-1, keepdims=True)
        share = np.nan_to_num(np.clip(weights / np.where(top > 0, top, 1), 0, 1))
    cells = np.maximum(np.rint(levels * np.sqrt(share)), share > 0)
    return top[..., 0].astype("<f4"), cells.astype("<u2" if levels > 255 else "u1")


def _numbers(w: np.ndarray) -> list[float | None]:
    """Return the measures of the weights before binning; None for NaN."""
    measures = numbers(w)
    return [float(f"{x:.4g}") if math.isfinite(x) else None for x in (measures[name] for name in NUMBERS)]


def _packed(chunks: list[bytes]) -> str:
    return base64.b64encode(zlib.compress(b"".join(chunks), 9)).decode()
