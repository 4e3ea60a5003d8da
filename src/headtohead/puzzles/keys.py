"""Puzzles about a query and its keys: select one value, average several values. Puzzles 1 to 6 and 14.

Shapes: n keys in d dimensions; keys (n, d), query (d,), weights (n,).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headtohead.errors import InputError
from headtohead.puzzles import pictures, published, reading
from headtohead.puzzles.base import WITHIN, Found, Measured, Puzzle, row
from headtohead.puzzles.reach import CLOSE, TIGHT, Array, Kind, Reached, attend, distance, reach, softmax

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_KEY = 1e6  # with larger keys, or keys below the inverse, the query would be too long or too short to type
THIRD = 2  # the key that puzzles 5 and 6 replace
LENGTH = 0.005  # tolerance for the length of a typed key of length 1


@dataclass(frozen=True, eq=False)
class OfKeys(Puzzle):
    """A puzzle that gives keys and asks for certain attention weights."""

    question: ClassVar[str]  # the statement without the keys
    least: ClassVar[int] = 2  # smallest number of keys
    averaged: ClassVar[int | None] = None  # number of first keys that share the attention equally; None: all keys
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
    def target(self) -> Array:
        """The weights asked for: (n,), or (m, n) for m queries."""
        count = self.averaged or len(self.keys)
        return np.where(np.arange(len(self.keys)) < count, 1 / count, 0.0)

    @property
    def statement(self) -> str:
        keys = "\n".join(f"    k{n} = {row(k)}" for n, k in enumerate(self.keys))
        return f"{self.question}\n{keys}"

    @property
    def is_published(self) -> bool:
        """Whether the inputs are those of the course report."""
        return np.array_equal(self.keys, published.keys())

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"query": reading.vector("query", answer["query"], self.keys.shape[1])}

    def find(self) -> Found:
        r = self.nearest(self.target)
        return Found({"query": r.query}, r.kind, r.method, r.reason, self.notes())

    def nearest(self, target: Array) -> Reached:
        """The query whose weights are nearest to the target (n,)."""
        return reach(self.keys, target)

    def measure(self, answer: dict[str, Array]) -> Measured:
        return self._measured(attend(self.keys, answer["query"]))

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
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


class Selecting(OfKeys):
    """A puzzle that selects single keys with the method of the course report, where this method selects the key."""

    def nearest(self, target: Array) -> Reached:
        found = reach(self.keys, target)
        query = published.least_squares(self.keys, published.HIGH * target)
        if found.kind != "in the limit" or distance(attend(self.keys, query), target) > CLOSE:
            return found
        method = f"least squares towards score {published.HIGH:g} for that key and 0 for the others"
        return dataclasses.replace(found, query=query, method=method)


class SelectFirst(Selecting):
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

    question = "Find a query that selects the first value: weights as close to (1, 0, 0, …) as softmax allows."
    averaged = 1


class Identity(Selecting):
    number, name, title = 2, "identity", "A query matrix that maps every value to itself"
    asks: ClassVar[dict[str, str]] = {"query": "a row of d numbers for each key, such as '1,2,3;4,5,6;7,8,9;1,1,1'"}
    explanation = (
        "Query i solves puzzle 1 for key i. All of these queries exist exactly when every key is a corner of the hull. "
        "Keys of equal length always are: <k_i, k_i> is larger than <k_i, k_j>, so Q = t·K works for large t. The keys "
        "of the course report have lengths from 0.998 to 1.004, and no two of them have the same direction."
    )

    question = "Find one query per key, so that query i selects value i: the weights are the identity matrix."

    @property
    def target(self) -> Array:
        return np.eye(len(self.keys))

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"query": reading.matrix("query", answer["query"], self.keys.shape)}

    def find(self) -> Found:
        found = [self.nearest(target) for target in self.target]
        reasons = [f"query {n}: {r.reason}" for n, r in enumerate(found) if r.kind == "impossible"]
        why = "; ".join(reasons) or "every key is a corner of the hull of all keys, so a query for each key exists"
        method = "; ".join(dict.fromkeys(r.method for r in found))
        query = np.array([r.query for r in found])
        return Found({"query": query}, "impossible" if reasons else found[0].kind, method, why, self.notes())

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        pictures.matrices(figure, answer["query"] @ self.keys.T, measured)


class AverageAll(OfKeys):
    number, name, title = 3, "average", "A query that averages all values"
    explanation = (
        "Equal weights need equal scores. The zero query gives every key the score 0, so it is an exact answer for any "
        "keys. Another query works exactly when it is orthogonal to every difference k_i − k_0. The four keys of the "
        "course report do not lie in one plane, so zero is the only answer. A trained head with small queries does the "
        "same: it averages."
    )

    question = "Find a query that averages all values: the same weight for every key."


class AverageTwo(OfKeys):
    least = 3
    number, name, title = 4, "average-two", "A query that averages the first two values"
    explanation = (
        "The first two keys must have the same score, above all others: <q, k0 − k1> = 0, and the longer the query, "
        "the better. Such a query exists exactly when the line through k0 and k1 contains no mix of the other keys, "
        "that is, when k0 and k1 are the ends of an edge of the hull with no other key on it. The course report uses "
        "least squares towards the scores (3, 3, −2, −3). This does not make the two scores equal: they are 3.13 and "
        "2.92, so the weights are 0.549 and 0.446."
    )

    question = "Find a query that averages the first two values: weights (½, ½, 0, …)."
    averaged = 2


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
    question = "Find a query that gives these weights."

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
    def statement(self) -> str:
        return f"{super().statement}\n     w = {row(self.weights)}"

    @property
    def target(self) -> Array:
        return self.weights


# -- one key replaced --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Replaced(OfKeys):
    """A puzzle that gives the query and asks for the third key. The key changes only one number, its score <q, k2>."""

    least = 3
    asks: ClassVar[dict[str, str]] = {"key": "d numbers, such as 1,2,3"}

    query: Array = None  # None: the answer to puzzle 4, from the course report or, for other keys, from the solver

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.query is not None:
            query = reading.vector("query", self.query, self.keys.shape[1])
        elif super().is_published:
            query = published.averaging_query()
        else:
            query = AverageTwo(keys=self.keys).find().answer["query"]
        object.__setattr__(self, "query", query)

    @property
    def is_published(self) -> bool:
        return super().is_published and np.array_equal(self.query, published.averaging_query())

    @property
    def statement(self) -> str:
        return f"{super().statement}\n     q = {row(self.query)}"

    @property
    def scores(self) -> Array:
        """The scores of the given keys, (n,)."""
        return self.keys @ self.query

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"key": reading.vector("key", answer["key"], self.keys.shape[1])}

    def measure(self, answer: dict[str, Array]) -> Measured:
        return self._measured(attend(self.with_key(answer["key"]), self.query))

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        pictures.keys(figure, self.with_key(answer["key"]), self.query, measured, before=self.keys[THIRD])

    def with_key(self, key: Array) -> Array:
        """The keys with the third one replaced."""
        keys = self.keys.copy()
        keys[THIRD] = key
        return keys


class ThirdToo(Replaced):
    number, name, title = 5, "third-key", "A third key, so that the query of puzzle 4 averages the first three values"
    explanation = (
        "The third key needs the same score as the first two. Every key with this score works; its component "
        "orthogonal to the query does not matter. The course report copies k0. This gives the weights 0.355, 0.289 and "
        "0.355, because its query gives k0 and k1 different scores. No third key changes that: equal weights need <q, "
        "k0> = <q, k1>. The other keys also keep a share, which falls as the query gets longer."
    )

    question = "Replace only the third key, so that the given query averages the first three values."
    averaged = 3

    def find(self) -> Found:
        s, size = self.scores, float(self.query @ self.query)
        first, second, others = float(s[0]), float(s[1]), s[3:]
        key = self.keys[THIRD].copy()
        if size > 0:  # move along the query until the key has the best score
            key += (self._best_score() - s[THIRD]) / size * self.query
        equal = abs(first - second) <= TIGHT * (1 + abs(first))
        kind: Kind = "impossible"
        method = "a search over the score of the third key"
        if size == 0 and len(s) > 3:
            method, why = "no choice", "the query is zero, so every key has the same weight"
        elif not equal:
            why = f"the query scores k0 {first:.4g} and k1 {second:.4g}, and no third key changes that"
        elif len(others) == 0:
            kind, method = "exact", "the score of k0"
            why = "k0 and k1 have the same score and there is no other key"
        elif others.max() < first:
            kind, method = "in the limit", "the score of k0"
            why = "k0 and k1 have the same score; the share of the other keys goes to 0 as the query gets longer"
        else:
            why = f"another key scores {others.max():.4g}, k0 and k1 only {first:.4g}"
        return Found({"key": key}, kind, method, why, self.notes())

    def _best_score(self) -> float:
        """The score of the third key that gives the smallest distance."""
        from scipy.optimize import minimize_scalar

        def distance_at(score: float) -> float:
            s = self.scores.copy()
            s[THIRD] = score
            return distance(softmax(s), self.target)

        low, high = float(self.scores[[0, 1]].min()) - 2, float(self.scores.max()) + 2
        grid = np.linspace(low, high, 401)
        near = grid[int(np.argmin([distance_at(x) for x in grid]))]
        step = (high - low) / 400
        around = (near - step, near + step)
        found = minimize_scalar(distance_at, bounds=around, method="bounded", options={"xatol": 1e-10})
        # the distance has kinks at the scores of k0 and k1, which the search reaches only nearly
        return min((float(found.x), *map(float, self.scores[[0, 1]])), key=distance_at)


class UnitThird(Replaced):
    number, name = 6, "unit-key"
    title = "A third key of length 1, so that the query of puzzle 4 selects the third value"
    explanation = (
        "Among all keys of length 1, the key in the direction of the query has the highest score, |q| (Cauchy–Schwarz "
        "inequality), so it is the best answer. It selects the third value in the limit of long queries exactly when "
        "|q| is above every other score. How well it selects depends on the length of the query, which the puzzle "
        "fixes. The query of the course report has length 4.32 and gives k0 the score 3.13 and k1 2.92, so the third "
        "value gets at most 0.643 of the attention. The course report prints no answer. A query in the same direction "
        "that is a few times as long selects the third value. A changed key takes attention from unchanged keys, "
        "because softmax weights are shares of one total."
    )

    question = "Replace only the third key, by a key of length 1, so that the given query selects the third value."

    @property
    def target(self) -> Array:
        return np.where(np.arange(len(self.keys)) == THIRD, 1.0, 0.0)

    def find(self) -> Found:
        length = float(np.linalg.norm(self.query))
        if length == 0:
            why = "the query is zero, so every key has the same weight"
            return Found({"key": np.eye(self.keys.shape[1])[0]}, "impossible", "no choice", why, self.notes())
        others = np.delete(self.scores, THIRD)
        key, method = self.query / length, "the direction of the query, the best one by the Cauchy–Schwarz inequality"
        if others.max() >= length:
            rival = int(np.argmax(np.where(self.target, -np.inf, self.scores)))
            why = f"k{rival} scores {others.max():.4g}, a key of length 1 at most the length of the query, {length:.4g}"
            return Found({"key": key}, "impossible", method, why, self.notes())
        times = self._times_as_long(others - length)
        why = f"its score is {length:.4g} and the next highest is {others.max():.4g}; a longer query widens the gap"
        notes = self.notes()
        if times > 1:
            notes += (f"a query {times:.3g} times as long would reduce the distance to {WITHIN:g}",)
        return Found({"key": key}, "in the limit", method, why, notes)

    @staticmethod
    def _times_as_long(behind: Array) -> float:
        """The smallest factor for the query that leaves the other keys a share of at most WITHIN. `behind` are their
        scores minus the score of the third key."""
        from scipy.optimize import brentq

        def excess(t: float) -> float:
            return float(np.logaddexp.reduce(t * behind) - np.log(WITHIN / (1 - WITHIN)))

        return float(brentq(excess, 0.0, 1 + 50 * len(behind) / float(-behind.max()))) if excess(0.0) > 0 else 0.0

    def measure(self, answer: dict[str, Array]) -> Measured:
        length = float(np.linalg.norm(answer["key"]))
        fault = f"the key has length {length:.4g}, but must have length 1" if abs(length - 1) > LENGTH else ""
        return self._measured(attend(self.with_key(answer["key"]), self.query), fault)
