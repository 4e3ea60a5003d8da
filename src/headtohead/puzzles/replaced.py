"""Puzzles of one replaced key: the query stays, the third key may change.

With the query fixed only the score <q, k2> matters, one number, and the other scores stay as they are.
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
LENGTH = 0.005  # how far from 1 the length of a typed key may be


@dataclass(frozen=True, eq=False)
class Replaced(OfKeys):
    """The third key is looked for; the query is given."""

    least: ClassVar[int] = 3
    asks: ClassVar[dict[str, str]] = {"key": "d numbers, such as 1,2,3"}

    query: Array = None  # none: the document's of puzzle 4, or the solver's for keys of the user's

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
        """Of the keys as they are, (n,)."""
        return self.keys @ self.query

    def read(self, answer: dict[str, Any]) -> dict[str, Array]:
        return {"key": reading.vector("key", answer["key"], self.keys.shape[1])}

    def measure(self, answer: dict[str, Array]) -> Measured:
        return self._measured(attend(self.with_key(answer["key"]), self.query))

    def draw(self, figure: Figure, answer: dict[str, Array], measured: Measured) -> None:
        from headtohead.puzzles import pictures

        pictures.keys(figure, self.with_key(answer["key"]), self.query, measured, before=self.keys[THIRD])

    def with_key(self, key: Array) -> Array:
        keys = self.keys.copy()
        keys[THIRD] = key
        return keys


class ThirdToo(Replaced):
    number, name, title = 5, "third-key", "A third key, so that the same query averages the first three values"
    explanation = (
        "The third key must score as the first two do. Any key does that has this score; what is at right angles to "
        "the query does not matter. Copying k0, the document's way, gives weights 0.355, 0.289 and 0.355, because "
        "its query scores k0 and k1 differently, and no third key changes that: equal weights need <q, k0> = <q, "
        "k1>. The other keys keep a share too, as small as the query is long."
    )

    @property
    def question(self) -> str:
        return "Replace the third key only, so that the given query averages the first three values."

    @property
    def target(self) -> Array:
        return np.where(np.arange(len(self.keys)) < 3, 1 / 3, 0.0)

    def find(self) -> Found:
        s, size = self.scores, float(self.query @ self.query)
        first, second, others = float(s[0]), float(s[1]), s[3:]
        key = self.keys[THIRD].copy()
        if size > 0:  # moved along the query as far as its score needs
            key += (self._best_score() - s[THIRD]) / size * self.query
        alike = abs(first - second) <= TIGHT * (1 + abs(first))
        if size == 0 and len(s) > 3:
            why = "the query is zero, so every key has the same weight whatever it is"
            return Found({"key": key}, "impossible", "nothing to choose", why, self.notes())
        if alike and len(others) == 0:
            why = "k0 and k1 score alike and there is no other key"
            return Found({"key": key}, "exact", "the score of k0", why, self.notes())
        if alike and others.max() < first:
            why = "k0 and k1 score alike; the other keys keep a share that goes to 0 as the query grows"
            return Found({"key": key}, "in the limit", "the score of k0", why, self.notes())
        why = f"the query scores k0 {first:.4g} and k1 {second:.4g}, and no third key changes that"
        if alike:
            why = f"another key scores {others.max():.4g}, k0 and k1 no more than {first:.4g}"
        return Found({"key": key}, "impossible", "a search over the one score that is free", why, self.notes())

    def _best_score(self) -> float:
        """The score of the third key with the least total variation."""
        from scipy.optimize import minimize_scalar

        def apart(score: float) -> float:
            s = self.scores.copy()
            s[THIRD] = score
            return distance(softmax(s), self.target)

        low, high = float(self.scores[[0, 1]].min()) - 2, float(self.scores.max()) + 2
        grid = np.linspace(low, high, 401)
        near = grid[int(np.argmin([apart(x) for x in grid]))]
        step = (high - low) / 400
        found = minimize_scalar(apart, bounds=(near - step, near + step), method="bounded", options={"xatol": 1e-10})
        # a kink of the total variation, where a search stops short of it: the score of k0 or of k1 itself
        return min((float(found.x), *map(float, self.scores[[0, 1]])), key=apart)


class UnitThird(Replaced):
    number, name, title = 6, "unit-key", "A third key of length 1, so that the same query selects the third value"
    explanation = (
        "Of all keys of length 1 the one that points along the query has the highest score, |q| (Cauchy and "
        "Schwarz), so it is the best answer there is. It selects in the limit of long queries exactly when |q| is "
        "above every other score. How well it selects depends on the query's length, which the puzzle fixes: the "
        "document's query has length 4.32 and scores k0 3.13 and k1 2.92, so the third value gets 0.643 of the "
        "attention at best. The document prints no answer. With a query in the same direction, a few times as long, "
        "the third value is returned. That a key can take attention away from keys that nobody changed is softmax's "
        "doing: weights are shares."
    )

    @property
    def question(self) -> str:
        return "Replace the third key only, by one of length 1, so that the given query selects the third value."

    @property
    def target(self) -> Array:
        return np.where(np.arange(len(self.keys)) == THIRD, 1.0, 0.0)

    def find(self) -> Found:
        length = float(np.linalg.norm(self.query))
        if length == 0:
            why = "the query is zero, so every key has the same weight whatever it is"
            return Found({"key": np.eye(self.keys.shape[1])[0]}, "impossible", "nothing to choose", why, self.notes())
        others = np.delete(self.scores, THIRD)
        key, method = self.query / length, "the direction of the query, the best there is by Cauchy and Schwarz"
        if others.max() >= length:
            rival = int(np.argmax(np.where(np.arange(len(self.keys)) == THIRD, -np.inf, self.scores)))
            why = f"k{rival} scores {others.max():.4g}, and a key of length 1 at most {length:.4g}, the query's length"
            return Found({"key": key}, "impossible", method, why, self.notes())
        times = self._times(others - length)
        why = f"its score is {length:.4g} and the next highest {others.max():.4g}: the longer the query, the nearer"
        notes = self.notes()
        if times > 1:
            notes += (f"a query {times:.3g} times as long would bring the distance down to {WITHIN:g}",)
        return Found({"key": key}, "in the limit", method, why, notes)

    @staticmethod
    def _times(behind: Array) -> float:
        """The smallest multiple of the query that leaves the others no more than WITHIN; their scores are `behind`."""
        from scipy.optimize import brentq

        def left(t: float) -> float:
            return float(np.logaddexp.reduce(t * behind) - np.log(WITHIN / (1 - WITHIN)))

        return float(brentq(left, 0.0, 1 + 50 * len(behind) / float(-behind.max()))) if left(0.0) > 0 else 0.0

    def measure(self, answer: dict[str, Array]) -> Measured:
        length = float(np.linalg.norm(answer["key"]))
        fault = f"the key has length {length:.4g} and must have length 1" if abs(length - 1) > LENGTH else ""
        return self._measured(attend(self.with_key(answer["key"]), self.query), fault)
