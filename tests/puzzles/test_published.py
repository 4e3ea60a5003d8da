"""The six answers of the course report, against its printed figures and against softmax."""

import numpy as np
import pytest

from headtohead.puzzles import listing, puzzle
from headtohead.puzzles.published import QUERIES, averaging_query, keys, least_squares, recovered


def test_keys_follow_from_the_printed_queries():
    """K = 100·Q(QᵀQ)⁻¹; what comes out has two decimals, with nothing left in the next three."""
    assert keys().tolist() == [[0.47, 0.65, 0.60], [0.64, 0.50, -0.59], [-0.03, -0.48, -0.88], [0.43, -0.83, 0.35]]
    assert np.abs(recovered() - keys()).max() < 1e-6


def test_recovery_is_exact_for_any_keys():
    given = np.random.default_rng(0).normal(size=(5, 3))
    assert np.allclose(recovered(least_squares(given, 100 * np.eye(5))), given)


def test_least_squares_gives_the_published_figures():
    q = least_squares(keys(), np.array([100.0, 0, 0, 0]))
    assert [f"{x:.4f}" for x in q] == ["44.6093", "28.4705", "31.0986"]
    assert np.array_equal(np.round(least_squares(keys(), 100 * np.eye(4)), 4), QUERIES)
    assert np.array_equal(np.round(puzzle(1).solve().found.answer["query"], 4), QUERIES[0])
    assert np.array_equal(np.round(puzzle(2).solve().found.answer["query"], 4), QUERIES)


def test_published_answers_have_these_weights():
    rows = {row["puzzle"]: row for row in listing.rows()}
    assert list(rows) == [1, 2, 3, 4, 5, 6]
    assert [rows[n]["reproduced"] for n in rows] == [True, True, True, None, None, None]
    assert [rows[n]["right"] for n in rows] == [True, True, True, False, True, None]
    assert rows[1]["distance"] < 1e-14
    assert rows[2]["distance"] < 1e-14
    assert rows[3]["distance"] == 0
    assert np.round(rows[4]["weights"], 4).tolist() == [[0.5491, 0.4460, 0.0037, 0.0012]]
    assert rows[4]["distance"] == pytest.approx(0.0540, abs=5e-5)
    assert np.round(rows[5]["weights"], 4).tolist() == [[0.3553, 0.2886, 0.3553, 0.0008]]
    assert rows[5]["distance"] == pytest.approx(0.0448, abs=5e-5)
    assert rows[6]["weights"] is None
    assert [round(rows[n]["best"], 3) for n in rows] == [0, 0, 0, 0, 0.035, 0.357]


def test_scores_of_the_published_first_query():
    """No query gives (100, 0, 0, 0), but the first score is 33.7 above the next: enough for 15 digits."""
    scores = keys() @ QUERIES[0]
    assert np.round(scores, 1).tolist() == [58.1, 24.4, -42.4, 6.4]


def test_unit_key_cannot_select_with_the_published_query():
    """The best key of length 1 gets 0.643; 2.85 times the query would do."""
    answer = puzzle(6).solve()
    assert not answer.ok
    assert answer.kind == "in the limit"
    assert answer.measured.weights[0, 2] == pytest.approx(0.6433, abs=5e-5)
    u = np.random.default_rng(0).normal(size=(2000, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    assert min(puzzle(6).measure({"key": k}).distance for k in u[:300]) > answer.distance
    assert "2.85 times as long" in " ".join(answer.found.notes)
    assert puzzle(6, query=2.80 * averaging_query()).solve().distance > 0.05
    assert puzzle(6, query=2.86 * averaging_query()).solve().distance < 0.05
