"""Attention maps as a widget in a notebook: every head, one of them enlarged, and the text coloured by its weights.

Weights are sent as bytes of float16. The page is `static/attention.js`, which loads nothing.
Shapes: L layers, H heads, n rows and columns of a map (tokens, or bins of tokens).
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headtohead.errors import InputError, Unavailable
from headtohead.interpret.bins import bin_edges, binned, sizes

if TYPE_CHECKING:
    from headtohead.interpret.maps import Maps

STATIC = Path(__file__).parent / "static"
MOST = 200  # rows and columns of a map: with more, cells are smaller than a few pixels
ROOM = 2_400_000  # bytes of weights: Jupyter drops messages of a cell that are larger than 3 MB
WHOLE = -1  # start: the whole text, in bins where it is long
LEAST = np.float16(6e-8)  # the smallest number of float16: only zero becomes zero


def longest(maps: Maps) -> int:
    """The largest number of rows and columns that are sent of each head."""
    return max(2, min(MOST, math.isqrt(ROOM // (2 * len(maps.layers) * len(maps.heads)))))


def parts(maps: Maps) -> list[int]:
    """The first token of each part of a text that is too long to be shown token by token; empty for a short text."""
    size = longest(maps)
    return list(range(0, maps.real, size)) if maps.real > size else []


def data(maps: Maps, start: int = WHOLE) -> dict[str, Any]:
    """What the page shows: the whole text, in bins where it is long, or the tokens from `start` on."""
    size, real = longest(maps), maps.real
    if start == WHOLE:
        edges = bin_edges(real, size)
        weights = binned(maps.weights[..., :real, :real], edges)
    else:
        end = min(real, start + size)
        edges = np.arange(start, end + 1)
        weights = sizes(maps.weights[..., start:end, start:end])
    return {
        "start": start,
        "edges": edges.tolist(),
        "tokens": [maps.tokens[first] for first in edges[:-1]],  # the first token of each bin
        "weights": halves(weights),
    }


def halves(weights: np.ndarray) -> bytes:
    """Weights as float16, in which only zero is zero."""
    coded = weights.astype("<f2")
    coded[(coded == 0) & (weights > 0)] = LEAST
    return coded.tobytes()


def notes(maps: Maps) -> list[str]:
    """What the page says below the maps."""
    said = [f"{maps.real:,} token{'s' * (maps.real != 1)}"]
    if maps.cut:
        said.append(f"cut to the block: {maps.cut:,} tokens at the end are not read")
    if maps.unknown:
        said.append(f"{maps.unknown:,} unknown to the vocabulary")
    broken = [f"BROKEN: {check.name}: {check.says}" for check in maps.checks if check.broken]
    said += maps.silences
    return [*said, *(broken or ["no check is broken"])]


def widget(maps: Maps) -> Any:
    """Return the widget of these maps. `layer`, `head` and `query` follow the page, and the page follows them."""
    step = "" if maps.step is None else f", step {maps.step:,}"
    return _kind()(
        maps,
        title=f"{maps.name}{step}",
        answer=maps.answer(),
        notes=notes(maps),
        layers=list(maps.layers),
        heads=list(maps.heads),
        parts=parts(maps),
        layer=maps.layers[0],
        head=maps.heads[0],
        query=maps.real - 1,
        **data(maps),
    )


@cache
def _kind() -> type[Any]:
    """The class of the widget, made when it is first needed: anywidget is optional."""
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as error:
        raise Unavailable(f"maps.widget() needs {error.name}: pip install 'headtohead[notebook]'") from None

    class AttentionWidget(anywidget.AnyWidget):
        """Attention maps: `layer`, `head` and `query` are what is chosen on the page."""

        _esm = (STATIC / "attention.js").read_text(encoding="utf-8")
        _css = (STATIC / "attention.css").read_text(encoding="utf-8")

        title = traitlets.Unicode().tag(sync=True)
        answer = traitlets.Unicode().tag(sync=True)
        notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
        layers = traitlets.List(traitlets.Int()).tag(sync=True)
        heads = traitlets.List(traitlets.Int()).tag(sync=True)
        tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
        edges = traitlets.List(traitlets.Int()).tag(sync=True)  # of the bins, as numbers of tokens
        weights = traitlets.Bytes().tag(sync=True)  # (L, H, n, n)
        parts = traitlets.List(traitlets.Int()).tag(sync=True)
        start = traitlets.Int(WHOLE).tag(sync=True)
        layer = traitlets.Int().tag(sync=True)
        head = traitlets.Int().tag(sync=True)
        query = traitlets.Int().tag(sync=True)  # the chosen token

        def __init__(self, maps: Maps, **values: Any) -> None:
            self.maps = maps
            super().__init__(**values)

        @traitlets.validate("layer", "head", "query", "start")
        def _check(self, proposal: Any) -> int:
            name, value = proposal["trait"].name, int(proposal["value"])
            known = {"layer": self.maps.layers, "head": self.maps.heads}
            if name in known:
                self.maps.only(**{f"{name}s": [value]})  # refuses what the model does not have
            elif not (name == "start" and value == WHOLE) and not 0 <= value < self.maps.real:
                whole = f", or {WHOLE} for the whole text" if name == "start" else ""
                raise InputError(f"{name} is a token from 0 to {self.maps.real - 1}{whole}, not {value}")
            return value

        @traitlets.observe("start")
        def _show(self, change: Any) -> None:
            with self.hold_sync():  # one message
                for name, value in data(self.maps, change["new"]).items():
                    self.set_trait(name, value)

        def __repr__(self) -> str:
            return f"AttentionWidget({self.title}: layer {self.layer}, head {self.head})"

    return AttentionWidget
