"""The document's six answers as figures, and what they really do.

The document prints no keys. It prints Q, the least-squares queries for the scores 100·I: with K (4×3) of full rank,
Q = 100·K(KᵀK)⁻¹, hence QᵀQ = 100²·(KᵀK)⁻¹ and K = 100·Q(QᵀQ)⁻¹. So the keys follow from what is printed; they come
out as numbers of two decimals, and with these all twelve printed figures are met to the last digit.
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
HIGH = 100.0  # the score the document wants for the selected key
TARGET = np.array([3.0, 3.0, -2.0, -3.0])  # the scores it wants for the average of the first two
UNIT = 5e-5  # half of the last printed digit


def recovered(queries: Array = QUERIES) -> Array:
    """K = 100·Q(QᵀQ)⁻¹, as exact as four printed decimals allow."""
    return HIGH * queries @ np.linalg.inv(queries.T @ queries)


def keys() -> Array:
    """The document's keys (4, 3)."""
    return np.round(recovered(), 2) + 0.0


def least_squares(keys: Array, scores: Array) -> Array:
    """The query whose scores come nearest to those wanted; a matrix of queries for a matrix of scores."""
    return np.linalg.lstsq(keys, scores.T, rcond=None)[0].T


def averaging_query() -> Array:
    """The document's query of puzzle 4, which puzzles 5 and 6 keep. It gives the scores and not the query."""
    return least_squares(keys(), TARGET)


@dataclass(frozen=True)
class Published:
    """A printed answer: what it is, and how it was made."""

    says: str
    answer: dict[str, Array] | None  # none where the document leaves the answer out
    printed: Array | None = None  # figures to compare with ours, where there are any


def met() -> tuple[int, int]:
    """How many printed figures ours equal to the last digit, and how many are printed; each once."""
    close = np.abs(least_squares(keys(), HIGH * np.eye(len(QUERIES))) - QUERIES) <= UNIT
    return int(close.sum()), close.size


def answers() -> dict[int, Published]:
    """Puzzle → the document's answer, computed from its keys as the document says; with its figures beside it."""
    K = keys()
    n = len(K)
    return {
        1: Published(
            "least squares towards the scores (100, 0, 0, 0)",
            {"query": least_squares(K, HIGH * np.eye(n)[0])},
            QUERIES[0],
        ),
        2: Published(
            "least squares towards 100 times the identity", {"query": least_squares(K, HIGH * np.eye(n))}, QUERIES
        ),
        3: Published("the zero query", {"query": np.zeros(3)}, np.zeros(3)),
        4: Published("least squares towards the scores (3, 3, −2, −3)", {"query": averaging_query()}),
        5: Published("the third key replaced by the first", {"key": K[0]}),
        6: Published("the document prints no answer", None),
    }
