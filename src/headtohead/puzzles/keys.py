"""Puzzles about a query and its keys: select one value, average several values. Puzzles 1 to 4 and 14.

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

LARGEST_KEY = 1e6  # with larger keys, or keys below the inverse, the query would be too long or too short to type


@dataclass(frozen=True, eq=False)
class OfKeys(Puzzle):
    """A puzzle that gives keys and asks for certain attention weights."""

    least: ClassVar[int] = 2  # smallest number of keys
    asks: ClassVar[dict[str, str]] = {"query": "d numbers, such as 1,2,3"}

    keys: Array = field(default_factory=published.keys)

    def __post_init__(self) -> None:
        keys = reading.rows("keys", self.keys)
        if len(keys) < self.least:
            raise InputError(
                f"puzzle {self.number} needs {self.least} keys or more, not {len(keys)}: such as --keys '1,0;0,1;1,1'"
            )
        if np.abs(keys).max() > LARGEST_KEY:
            raise InputError(f"--keys has a number beyond {LARGEST_KEY:g}: give smaller numbers")
        if 0 < np.abs(keys).max() < 1 / LARGEST_KEY:
            raise InputError(f"--keys are all nearer to 0 than {1 / LARGEST_KEY:g}: give larger numbers")
        object.__setattr__(self, "keys", keys)

    @property
    @abc.abstractmethod
    def target(self) -> Array:
        """The weights asked for: (n,), or (m, n) for m queries."""

    @property
    def statement(self) -> str:
        keys = "\n".join(f"    k{n} = {row(k)}" for n, k in enumerate(self.keys))
        return f"{self.question}\n{keys}"

    @property
    @abc.abstractmethod
    def question(self) -> str:
        """The question without the keys."""

    @property
    def is_published(self) -> bool:
        """Whether the inputs are those of the course report."""
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
        """The answer of the course report and the weights that it gives."""
        if not self.is_published or self.number not in published.answers():
            return ()
        report = published.answers()[self.number]
        if report.answer is None:
            return (f"published: {report.says}",)
        measured = self.measure(report.answer)
        weights = "; ".join(row(w).strip() for w in measured.weights)
        return (f"published: {report.says}; weights {weights}; distance {measured.distance:.2g}",)

    def _measured(self, weights: Array, fault: str = "") -> Measured:
        weights, target = np.atleast_2d(weights), np.atleast_2d(self.target)
        off = distance(weights, target)
        n, i = np.unravel_index(np.abs(weights - target).argmax(), weights.shape)
        which = f"query {n}, " if len(weights) > 1 else ""
        worst = f"{which}k{i} has {weights[n, i]:.4f} and should have {target[n, i]:.4g}"
        return Measured(weights, target, off, worst if off > CLOSE else "total variation", fault=fault)


def _first(n: int, of: int) -> Array:
    """Equal weights for the first n of `of` keys."""
    return np.where(np.arange(of) < n, 1 / n, 0.0)


def _selecting(keys: Array, target: Array) -> tuple[Array, str] | None:
    """The method of the course report: least squares towards score 100 for one key and 0 for the others. None if the
    resulting query does not select the key."""
    query = published.least_squares(keys, published.HIGH * target)
    if distance(attend(keys, query), target) > CLOSE:
        return None
    return query, f"least squares towards score {published.HIGH:g} for that key and 0 for the others"


class SelectFirst(OfKeys):
    number, name, title = 1, "select", "A query that selects the first value"
    explanation = (
        "Softmax turns differences of scores into ratios of weights: a difference of 3 gives 20 to 1, a difference of "
        "10 gives 22,000 to 1. The first key must therefore score higher than every other key. The longer the query, "
        "the closer the weight of the first key comes to 1, but it never reaches 1. Such a query exists exactly when "
        "k0 is a corner of the convex hull of all keys. A key that is a mix of other keys never scores above all of "
        "them. Its largest possible weight is then 1/(1 + e^H), where H is the entropy of the most even mix of the "
        "other keys that equals k0. A query of three numbers cannot set four scores, so least squares misses the "
        "scores (100, 0, 0, 0). This does not matter as long as the first score is the highest. The scores of least "
        "squares are 100 times a column of the projection onto the span of the keys. For some keys the first is not "
        "the highest of them, although another query selects the first value."
    )

    @property
    def question(self) -> str:
        return "Find a query that selects the first value: weights as close to (1, 0, 0, …) as softmax allows."

    @property
    def target(self) -> Array:
        return _first(1, len(self.keys))

    def find(self) -> Found:
        found, simple = super().find(), _selecting(self.keys, self.target)
        if found.kind != "in the limit" or simple is None:
            return found
        return Found({"query": simple[0]}, found.kind, simple[1], found.reason, found.notes)


class Identity(OfKeys):
    number, name, title = 2, "identity", "A query matrix that maps every value to itself"
    asks: ClassVar[dict[str, str]] = {"query": "a row of d numbers for each key, such as '1,2,3;4,5,6;7,8,9;1,1,1'"}
    explanation = (
        "Query i solves puzzle 1 for key i. All of these queries exist exactly when every key is a corner of the hull. "
        "Keys of equal length always are: <k_i, k_i> is larger than <k_i, k_j>, so Q = t·K works for large t. The keys "
        "of the course report have lengths from 0.998 to 1.004, and no two of them have the same direction."
    )

    @property
    def question(self) -> str:
        return "Find one query per key, so that query i selects value i: the weights are the identity matrix."

    @property
    def target(self) -> Array:
        return np.eye(len(self.keys))

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"query": reading.matrix("query", answer["query"], self.keys.shape)}

    def find(self) -> Found:
        queries, methods, kinds, reasons = [], [], [], []
        for n, wanted in enumerate(self.target):
            r, simple = reach(self.keys, wanted), _selecting(self.keys, wanted)
            query, method = simple if simple and r.kind == "in the limit" else (r.query, r.method)
            queries.append(query)
            methods.append(method)
            kinds.append(r.kind)
            if r.kind == "impossible":
                reasons.append(f"query {n}: {r.reason}")
        kind = "impossible" if reasons else kinds[0]
        why = "; ".join(reasons) or "every key is a corner of the hull of all keys, so a query for each key exists"
        return Found({"query": np.array(queries)}, kind, "; ".join(dict.fromkeys(methods)), why, self.notes())

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        from headtohead.puzzles import pictures

        pictures.matrices(figure, answer["query"] @ self.keys.T, measured)


class AverageAll(OfKeys):
    number, name, title = 3, "average", "A query that averages all values"
    explanation = (
        "Equal weights need equal scores. The zero query gives every key the score 0, so it is an exact answer for any "
        "keys. Another query works exactly when it is orthogonal to every difference k_i − k_0. The four keys of the "
        "course report do not lie in one plane, so zero is the only answer. A trained head with small queries does the "
        "same: it averages."
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
        "The first two keys must have the same score, above all others: <q, k0 − k1> = 0, and the longer the query, "
        "the better. Such a query exists exactly when the line through k0 and k1 contains no mix of the other keys, "
        "that is, when k0 and k1 are the ends of an edge of the hull with no other key on it. The course report uses "
        "least squares towards the scores (3, 3, −2, −3). This does not make the two scores equal: they are 3.13 and "
        "2.92, so the weights are 0.549 and 0.446."
    )

    @property
    def question(self) -> str:
        return "Find a query that averages the first two values: weights (½, ½, 0, …)."

    @property
    def target(self) -> Array:
        return _first(2, len(self.keys))


@dataclass(frozen=True, eq=False)
class Weights(OfKeys):
    number, name, title = 14, "weights", "A query that gives chosen weights"
    explanation = (
        "The scores must be log w plus any constant. In d dimensions a query and the constant are d + 1 free numbers. "
        "Up to d + 1 keys in general position therefore reach any weights above zero exactly, by least squares on log "
        "w with no residual. With more keys, most weights are out of reach. The nearest weights in cross-entropy are "
        "then those with the same mean key, Σ a_i k_i = Σ w_i k_i. Weights of zero are reached only in the limit, as "
        "in puzzles 1 and 4."
    )

    weights: Array = None  # None: n, n − 1, … 1, divided by their sum

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.keys)
        falling = np.arange(n, 0, -1) / np.arange(1, n + 1).sum()
        wanted = falling if self.weights is None else reading.vector("weights", self.weights, n)
        if wanted.min() < 0:
            raise InputError(f"--weights has {wanted.min():g}: give weights of 0 or more that sum to 1")
        if abs(wanted.sum() - 1) > 1e-6:
            raise InputError(f"--weights sum to {wanted.sum():.6g}: give weights that sum to 1")
        object.__setattr__(self, "weights", wanted / wanted.sum())

    @property
    def question(self) -> str:
        return f"Find a query that gives the weights ({', '.join(f'{w:.4g}' for w in self.weights)})."

    @property
    def target(self) -> Array:
        return self.weights
