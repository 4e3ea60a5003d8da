"""When a study is analysed, and how much of its error each analysis may spend. Fixed before the first analysis."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

from headtohead.errors import InputError

ALPHA = 0.05  # the chance of any false better or worse in a study
LEAST_PAIRS = 6  # the smallest p of n pairs is 2^(1−n): with 5 pairs it cannot fall below ALPHA
FIXED_PAIRS = 8  # of a study with one analysis
MAX_PAIRS = 20  # of a sequential study
RESERVE = 0.1  # share of ALPHA that is kept for analyses and arms that were not planned
POINTS = (6, 8, 10, 14, 20, 28, 40, 56, 80)  # numbers of pairs at which a sequential study is analysed

Rule = Literal["flips", "t"]


@dataclass(frozen=True)
class Design:
    """The analyses of a study, by their number of pairs. One analysis is a fixed design.

    `reserve` is the share of the error that no planned analysis spends. A locked plan has no unplanned analyses and
    needs no reserve. With the rule "flips" the test flips signs and is valid for any symmetric noise; with "t" it
    assumes normal noise.
    """

    analyses: tuple[int, ...] = (FIXED_PAIRS,)
    reserve: float = RESERVE
    rule: Rule = "flips"
    alpha: float = ALPHA

    def __post_init__(self) -> None:
        points = self.analyses
        if not points or any(a >= b for a, b in itertools.pairwise(points)) or points[0] < 2:
            raise InputError(f"analyses are rising numbers of pairs, such as 6,8,10, not {list(points)}")
        if self.rule not in ("flips", "t"):
            raise InputError(f"the rule of a design is flips or t, not '{self.rule}'")
        if not 0 <= self.reserve < 1:
            raise InputError(f"reserve is a share from 0 to below 1, not {self.reserve}")

    @property
    def planned(self) -> float:
        """The error of all planned analyses together."""
        return self.alpha * (1 - self.reserve)

    @property
    def spent(self) -> tuple[float, ...]:
        """The error that may be spent up to each analysis. The first may spend what its smallest p needs, or its share
        of the pairs if that is more; the rest is spread evenly over the pairs."""
        first, last = self.analyses[0], self.analyses[-1]
        if first == last:
            return (self.planned,)
        smallest = 0.0 if self.rule == "t" or first < LEAST_PAIRS else 2.0 ** (1 - first)
        start = min(max(smallest, self.planned * first / last), self.planned)
        return tuple(start + (self.planned - start) * (n - first) / (last - first) for n in self.analyses)

    @property
    def pairs(self) -> int:
        """The largest number of pairs."""
        return self.analyses[-1]


def sequential_design(max_pairs: int = MAX_PAIRS, *, rule: Rule = "flips", reserve: float = RESERVE) -> Design:
    """The design of a sequential study: analyses at 6, 8, 10, 14, 20 … pairs, at most `max_pairs`."""
    if max_pairs < LEAST_PAIRS:
        raise InputError(f"a verdict needs {LEAST_PAIRS} pairs or more: give --max-pairs {LEAST_PAIRS} or more")
    points = [n for n in POINTS if n < max_pairs]
    while points and points[-1] * math.sqrt(2) < max_pairs and points[-1] >= POINTS[-1]:
        points.append(round(points[-1] * math.sqrt(2)))
    return Design((*points, max_pairs), reserve=reserve, rule=rule)
