"""Puzzles about one replaced key: the query is fixed, the third key may change. Puzzles 5 and 6.

With a fixed query, the third key changes only one number, its score <q, k2>. The other scores do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headtohead.puzzles import published, reading
from headtohead.puzzles.base import WITHIN, Found, Measured, row
from headtohead.puzzles.keys import AverageTwo, OfKeys
from headtohead.puzzles.reach import TIGHT, Array, attend, distance, softmax

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THIRD = 2
LENGTH = 0.005  # tolerance for the length of a typed key of length 1


@dataclass(frozen=True, eq=False)
class Replaced(OfKeys):
    """A puzzle that gives the query and asks for the third key."""

    least: ClassVar[int] = 3
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
        from headtohead.puzzles import pictures

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

    @property
    def question(self) -> str:
        return "Replace only the third key, so that the given query averages the first three values."

    @property
    def target(self) -> Array:
        return np.where(np.arange(len(self.keys)) < 3, 1 / 3, 0.0)

    def find(self) -> Found:
        s, size = self.scores, float(self.query @ self.query)
        first, second, others = float(s[0]), float(s[1]), s[3:]
        key = self.keys[THIRD].copy()
        if size > 0:  # move along the query until the key has the best score
            key += (self._best_score() - s[THIRD]) / size * self.query
        equal = abs(first - second) <= TIGHT * (1 + abs(first))
        if size == 0 and len(s) > 3:
            why = "the query is zero, so every key has the same weight"
            return Found({"key": key}, "impossible", "no choice", why, self.notes())
        if equal and len(others) == 0:
            why = "k0 and k1 have the same score and there is no other key"
            return Found({"key": key}, "exact", "the score of k0", why, self.notes())
        if equal and others.max() < first:
            why = "k0 and k1 have the same score; the share of the other keys goes to 0 as the query gets longer"
            return Found({"key": key}, "in the limit", "the score of k0", why, self.notes())
        why = f"the query scores k0 {first:.4g} and k1 {second:.4g}, and no third key changes that"
        if equal:
            why = f"another key scores {others.max():.4g}, k0 and k1 only {first:.4g}"
        return Found({"key": key}, "impossible", "a search over the score of the third key", why, self.notes())

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
        found = minimize_scalar(
            distance_at, bounds=(near - step, near + step), method="bounded", options={"xatol": 1e-10}
        )
        # the distance has kinks at the scores of k0 and k1, which the search reaches only nearly
        return min((float(found.x), *map(float, self.scores[[0, 1]])), key=distance_at)


class UnitThird(Replaced):
    number, name, title = (
        6,
        "unit-key",
        "A third key of length 1, so that the query of puzzle 4 selects the third value",
    )
    explanation = (
        "Among all keys of length 1, the key in the direction of the query has the highest score, |q| (Cauchy–Schwarz "
        "inequality), so it is the best answer. It selects the third value in the limit of long queries exactly when "
        "|q| is above every other score. How well it selects depends on the length of the query, which the puzzle "
        "fixes. The query of the course report has length 4.32 and gives k0 the score 3.13 and k1 2.92, so the third "
        "value gets at most 0.643 of the attention. The course report prints no answer. A query in the same direction "
        "that is a few times as long selects the third value. A changed key takes attention from unchanged keys, "
        "because softmax weights are shares of one total."
    )

    @property
    def question(self) -> str:
        return "Replace only the third key, by a key of length 1, so that the given query selects the third value."

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
            rival = int(np.argmax(np.where(np.arange(len(self.keys)) == THIRD, -np.inf, self.scores)))
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
