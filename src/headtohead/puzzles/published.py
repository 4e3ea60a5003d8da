"""The six answers of the course report, as numbers.

The report prints no keys. It prints Q, the least-squares queries for the scores 100·I. With K (4×3) of full rank,
Q = 100·K(KᵀK)⁻¹, hence QᵀQ = 100²·(KᵀK)⁻¹ and K = 100·Q(QᵀQ)⁻¹. The keys therefore follow from Q. They are numbers
with two decimals, and least squares on them gives all twelve printed figures to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headtohead.puzzles.reach import Array

QUERIES = np.array(
    [
        [44.6093, 28.4705, 31.0986],
        [74.2993, 24.4711, -43.9832],
        [9.9978, -24.5389, -51.8660],
        [73.9117, -69.2530, 27.8533],
    ]
)
HIGH = 100.0  # the report's target score for the selected key
TARGET = np.array([3.0, 3.0, -2.0, -3.0])  # the report's target scores for the average of the first two values
UNIT = 5e-5  # half of the last printed digit


def recovered(queries: Array = QUERIES) -> Array:
    """K = 100·Q(QᵀQ)⁻¹, with the precision of four printed decimals."""
    return HIGH * queries @ np.linalg.inv(queries.T @ queries)


def keys() -> Array:
    """The keys of the course report (4, 3)."""
    return np.round(recovered(), 2) + 0.0


def least_squares(keys: Array, scores: Array) -> Array:
    """The query whose scores are nearest to the given scores; for a matrix of scores, a matrix of queries."""
    return np.linalg.lstsq(keys, scores.T, rcond=None)[0].T


def averaging_query() -> Array:
    """The report's query of puzzle 4, which puzzles 5 and 6 use. The report prints its target scores, not the query."""
    return least_squares(keys(), TARGET)


@dataclass(frozen=True)
class Published:
    """One answer of the course report."""

    says: str  # how the report obtains it
    answer: dict[str, Array] | None  # None: the report gives no answer
    printed: Array | None = None  # the printed figures, if any


def met() -> tuple[int, int]:
    """The number of printed figures that headtohead reproduces to the last digit, and the number of printed figures."""
    close = np.abs(least_squares(keys(), HIGH * np.eye(len(QUERIES))) - QUERIES) <= UNIT
    return int(close.sum()), close.size


def answers() -> dict[int, Published]:
    """The report's answer to each puzzle, computed from its keys with its method, and the printed figures."""
    K = keys()
    selecting = least_squares(K, HIGH * np.eye(len(K)))
    return {
        1: Published("least squares towards the scores (100, 0, 0, 0)", {"query": selecting[0]}, QUERIES[0]),
        2: Published("least squares towards 100 times the identity matrix", {"query": selecting}, QUERIES),
        3: Published("the zero query", {"query": np.zeros(3)}, np.zeros(3)),
        4: Published("least squares towards the scores (3, 3, −2, −3)", {"query": averaging_query()}),
        5: Published("the third key replaced by the first", {"key": K[0]}),
        6: Published("the course report prints no answer", None),
    }
