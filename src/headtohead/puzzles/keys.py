"""Puzzles of a query and its keys: select, average, and what one replaced key can do. The first six are the document's.

Shapes: n keys in d dimensions; keys (n, d), query (d,), weights (n,).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headtohead.errors import InputError
from headtohead.puzzles import published, reading
from headtohead.puzzles.base import Found, Measured, Puzzle, row
from headtohead.puzzles.reach import CLOSE, Array, attend, distance, reach

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_KEY = 1e6  # beyond it, and below its inverse, a query that tells keys apart could not be typed


@dataclass(frozen=True, eq=False)
class OfKeys(Puzzle):
    """Keys are given, weights are wanted."""

    least: ClassVar[int] = 2  # keys
    asks: ClassVar[dict[str, str]] = {"query": "d numbers, such as 1,2,3"}

    keys: Array = field(default_factory=published.keys)

    def __post_init__(self) -> None:
        keys = reading.rows("keys", self.keys)
        if len(keys) < self.least:
            raise InputError(
                f"puzzle {self.number} needs {self.least} keys or more, not {len(keys)}: --keys '1,0;0,1;…'"
            )
        if np.abs(keys).max() > LARGEST_KEY:
            raise InputError(f"--keys has a number beyond {LARGEST_KEY:g}: give smaller ones")
        if 0 < np.abs(keys).max() < 1 / LARGEST_KEY:
            raise InputError(f"--keys are all nearer to 0 than {1 / LARGEST_KEY:g}: give larger ones")
        object.__setattr__(self, "keys", keys)

    @property
    @abc.abstractmethod
    def target(self) -> Array:
        """(n,), or (m, n) for m queries."""

    @property
    def statement(self) -> str:
        keys = "\n".join(f"    k{n} = {row(k)}" for n, k in enumerate(self.keys))
        return f"{self.question}\n{keys}"

    @property
    @abc.abstractmethod
    def question(self) -> str: ...

    @property
    def is_published(self) -> bool:
        """Whether this is the document's own puzzle."""
        return np.array_equal(self.keys, published.keys())

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"query": reading.vector("query", answer["query"], self.keys.shape[1])}

    def find(self) -> Found:
        r = reach(self.keys, self.target)
        return Found({"query": r.query}, r.kind, r.method, r.reason, self.notes())

    def measure(self, answer: dict[str, Array]) -> Measured:
        return self._measured(attend(self.keys, answer["query"]))

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        from headtohead.puzzles import pictures

        pictures.keys(figure, self.keys, answer["query"], measured)

    def notes(self) -> tuple[str, ...]:
        """What the document's own answer does."""
        if not self.is_published or self.number not in published.answers():
            return ()
        said = published.answers()[self.number]
        if said.answer is None:
            return (f"published: {said.says}",)
        measured = self.measure(said.answer)
        weights = "; ".join(row(w).strip() for w in measured.weights)
        return (f"published: {said.says}; weights {weights}; distance {measured.distance:.2g}",)

    def _measured(self, weights: Array, fault: str = "") -> Measured:
        weights, target = np.atleast_2d(weights), np.atleast_2d(self.target)
        apart = distance(weights, target)
        n, i = np.unravel_index(np.abs(weights - target).argmax(), weights.shape)
        which = f"query {n}, " if len(weights) > 1 else ""
        right = f"{which}k{i} has {weights[n, i]:.4f} and should have {target[n, i]:.4g}"
        return Measured(weights, target, apart, right if apart > CLOSE else "total variation", fault=fault)


def _first(n: int, of: int) -> Array:
    """Equal weights for the first n of `of` keys."""
    return np.where(np.arange(of) < n, 1 / n, 0.0)


def _selecting(keys: Array, target: Array) -> tuple[Array, str] | None:
    """The document's way: least squares towards the score 100 for one key and 0 for the others; where it selects."""
    query = published.least_squares(keys, published.HIGH * target)
    if distance(attend(keys, query), target) > CLOSE:
        return None
    return query, f"least squares towards the score {published.HIGH:g} for that key and 0 for the others"


class SelectFirst(OfKeys):
    number, name, title = 1, "select", "A query that selects the first value"
    explanation = (
        "Softmax turns differences of scores into ratios of weights: e^3 is 20 to 1, e^10 is 22,000 to 1. So the "
        "first key must score higher than every other, and the longer the query, the closer its weight comes to 1, "
        "which it never is. Such a query exists exactly when k0 is a corner of the hull of all keys; a key that is a "
        "mix of others never scores above all of them, and then the largest weight there is, 1/(1 + e^H), follows "
        "from the most even mix of the others that makes k0, of entropy H. Four scores are too much for three "
        "numbers, so least squares misses the scores (100, 0, 0, 0); that does not matter as long as the first is "
        "the highest. Its scores are 100 times a column of the projection onto the span of the keys, and it can fail "
        "where a longer search does not."
    )

    @property
    def question(self) -> str:
        return "Find a query that selects the first value: weights (1, 0, 0, …), as near as softmax comes to it."

    @property
    def target(self) -> Array:
        return _first(1, len(self.keys))

    def find(self) -> Found:
        found, short = super().find(), _selecting(self.keys, self.target)
        if found.kind != "in the limit" or short is None:
            return found
        return Found({"query": short[0]}, found.kind, short[1], found.reason, found.notes)


class Identity(OfKeys):
    number, name, title = 2, "identity", "A query matrix that maps every value to itself"
    asks: ClassVar[dict[str, str]] = {"query": "a row of d numbers for each key, such as '1,2,3;4,5,6;7,8,9;1,1,1'"}
    explanation = (
        "Each query is the first puzzle for its own key. All of them can be had exactly when every key is a corner of "
        "the hull. Keys of one length always are: <k_i, k_i> is larger than <k_i, k_j>, so Q = t·K does it. The "
        "document's keys have lengths from 0.998 to 1.004, and no two point the same way."
    )

    @property
    def question(self) -> str:
        return "Find a query for each key, so that query i selects value i: the weights are the identity."

    @property
    def target(self) -> Array:
        return np.eye(len(self.keys))

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"query": reading.matrix("query", answer["query"], self.keys.shape)}

    def find(self) -> Found:
        queries, methods, kinds, reasons = [], [], [], []
        for n, wanted in enumerate(self.target):
            r, short = reach(self.keys, wanted), _selecting(self.keys, wanted)
            query, method = short if short and r.kind == "in the limit" else (r.query, r.method)
            queries.append(query)
            methods.append(method)
            kinds.append(r.kind)
            if r.kind == "impossible":
                reasons.append(f"query {n}: {r.reason}")
        kind = "impossible" if reasons else kinds[0]
        why = "; ".join(reasons) or "every key is a corner of the hull of all keys, so each has a query of its own"
        return Found({"query": np.array(queries)}, kind, "; ".join(dict.fromkeys(methods)), why, self.notes())

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        from headtohead.puzzles import pictures

        pictures.matrices(figure, answer["query"] @ self.keys.T, measured)


class AverageAll(OfKeys):
    number, name, title = 3, "average", "A query that averages all values"
    explanation = (
        "Equal weights need equal scores. The zero query gives them always, so this is exact for any keys. Another "
        "query does it exactly when it is at right angles to every difference k_i − k_0; the document's four keys "
        "lie in no common plane, so zero is the only one. A trained head whose queries are small does the same: it "
        "averages."
    )

    @property
    def question(self) -> str:
        return "Find a query that averages all values: the same weight for every key."

    @property
    def target(self) -> Array:
        return _first(len(self.keys), len(self.keys))


class AverageTwo(OfKeys):
    least: ClassVar[int] = 3
    number, name, title = 4, "average-two", "A query that averages the first two values"
    explanation = (
        "The first two keys must score alike and above all others: <q, k0 − k1> = 0, and then as long as one likes. "
        "It exists exactly when the line through k0 and k1 meets no mix of the other keys, that is, when the two are "
        "the ends of an edge of the hull with nothing else on it. Least squares towards (3, 3, −2, −3), the "
        "document's way, does not make the two scores alike: they come out as 3.13 and 2.92, so the weights are "
        "0.549 and 0.446."
    )

    @property
    def question(self) -> str:
        return "Find a query that averages the first two values: weights (½, ½, 0, …)."

    @property
    def target(self) -> Array:
        return _first(2, len(self.keys))


@dataclass(frozen=True, eq=False)
class Weights(OfKeys):
    number, name, title = 14, "weights", "Weights to order"
    explanation = (
        "The scores must be log w plus any constant. With the constant, n keys in d dimensions offer at most d + 1 "
        "numbers to set: as many keys as that, in general position, reach any weights above zero exactly, by least "
        "squares on log w without a rest. With more keys most weights cannot be had; the nearest in cross-entropy "
        "are those with the same mean key, Σ a_i k_i = Σ w_i k_i. Zeros among the weights are a limit, as in puzzles "
        "1 and 4."
    )

    weights: Array = None  # none: n, n − 1, … 1, made to sum to 1

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.keys)
        falling = np.arange(n, 0, -1) / np.arange(1, n + 1).sum()
        wanted = falling if self.weights is None else reading.vector("weights", self.weights, n)
        if wanted.min() < 0:
            raise InputError(f"--weights has {wanted.min():g}: weights are 0 or more, and sum to 1")
        if abs(wanted.sum() - 1) > 1e-6:
            raise InputError(f"--weights sum to {wanted.sum():.6g}: give weights that sum to 1")
        object.__setattr__(self, "weights", wanted / wanted.sum())

    @property
    def question(self) -> str:
        return f"Find a query that gives the weights ({', '.join(f'{w:.4g}' for w in self.weights)})."

    @property
    def target(self) -> Array:
        return self.weights
