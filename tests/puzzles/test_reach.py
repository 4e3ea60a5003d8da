"""Which weights a query reaches: exactly, in the limit or not at all."""

import numpy as np
import pytest

from headtohead.puzzles.published import keys as published_keys
from headtohead.puzzles.reach import attend, distance, mixture, reach, softmax, widest

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])


def uniform(n, *chosen):
    return np.array([1 / len(chosen) if i in chosen else 0.0 for i in range(n)])


def test_softmax_and_distance():
    assert softmax(np.array([1e300, -1e300])).tolist() == [1.0, 0.0]
    assert np.allclose(softmax(np.log([1.0, 2.0, 5.0])), [0.125, 0.25, 0.625])
    assert distance(np.array([0.6, 0.3, 0.1]), np.array([0.5, 0.5, 0.0])) == pytest.approx(0.2)
    rows = np.array([[1.0, 0.0], [0.7, 0.3]])
    assert distance(rows, np.array([[1.0, 0.0], [1.0, 0.0]])) == pytest.approx(0.3)  # the worst row


@pytest.mark.parametrize(
    ("keys", "chosen", "kind"),
    [
        (SQUARE, (0,), "in the limit"),
        (SQUARE, (0, 1), "in the limit"),  # an edge
        (SQUARE, (0, 2), "impossible"),  # a diagonal
        (SQUARE, (0, 1, 2, 3), "exact"),
        ([[0, 0], [1, 0], [0, 1], [0.3, 0.3]], (3,), "impossible"),  # inside the hull
        ([[0, 0], [2, 0], [1, 0]], (2,), "impossible"),  # on an edge
        ([[0, 0], [1, 0], [2, 0]], (0, 1), "impossible"),  # the third lies beyond on the same line
        ([[0, 0], [0, 0], [2, 0]], (0,), "impossible"),  # twice the same key
        ([[0, 0], [0, 0], [2, 0]], (0, 1), "in the limit"),
        ([[1e6, 0], [0, 0]], (0,), "in the limit"),
        ([[7, 7], [7, 7]], (0, 1), "exact"),
    ],
)
def test_kind_follows_from_the_hull(keys, chosen, kind):
    keys = np.array(keys, dtype=float)
    target = uniform(len(keys), *chosen)
    found = reach(keys, target)
    assert found.kind == kind
    off = distance(attend(keys, found.query), target)
    assert off > 0.05 if kind == "impossible" else off <= 1e-6


def test_kinds_agree_with_certificates():
    """Random small integer keys: exactly one of a direction and a mixture exists, and both are what they say."""
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(25):
        n, d = int(rng.integers(3, 7)), int(rng.integers(1, 4))
        keys = rng.integers(-2, 3, size=(n, d)).astype(float)
        inside = np.arange(n) < rng.integers(1, n)
        u, margin = widest(keys, inside)
        mixed = mixture(keys, inside)
        assert (margin > 1e-9) == (mixed is None)
        if mixed is None:
            scores = keys @ u
            assert np.ptp(scores[inside]) < 1e-9
            assert scores[inside].min() - scores[~inside].max() == pytest.approx(margin)
        else:
            others, own = mixed
            assert others.min() >= -1e-12
            assert others[inside].max() == own[~inside].max() == 0
            assert others.sum() == pytest.approx(1) == own.sum()
            assert np.allclose(others @ keys, own @ keys)
        kind = reach(keys, inside / inside.sum()).kind
        assert kind == ("in the limit" if mixed is None else "impossible")
        seen.add(kind)
    assert len(seen) == 2


def test_best_weight_of_a_key_inside_the_hull():
    """1/(1 + e^H), H the largest entropy of a mix of the others that makes the key; no query does better."""
    keys = np.array([[0.3, 0.3], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    mix = np.array([0.3, 0.3, 0.4])  # the only one: three corners
    best = 1 / (1 + np.exp(-(mix * np.log(mix)).sum()))
    found = reach(keys, uniform(4, 0))
    assert attend(keys, found.query)[0] == pytest.approx(best, abs=1e-9)
    tried = attend(keys, np.random.default_rng(0).normal(scale=3, size=(2000, 2)))[:, 0]
    assert tried.max() <= best
    assert "0.3·k1 + 0.3·k2 + 0.4·k3" in found.reason


def test_nearest_average_beats_random_search():
    target = uniform(4, 0, 2)
    best = distance(attend(SQUARE, reach(SQUARE, target).query), target)
    tried = attend(SQUARE, np.random.default_rng(0).normal(scale=3, size=(20000, 2)))
    assert best <= min(distance(a, target) for a in tried) + 1e-6


@pytest.mark.parametrize("weights", [[0.4, 0.3, 0.2, 0.1], [0.97, 0.01, 0.01, 0.01], [0.6, 0.4, 0.0, 0.0]])
def test_chosen_weights_are_reached(weights):
    keys, target = published_keys(), np.array(weights)
    found = reach(keys, target)
    assert found.kind == ("exact" if min(weights) > 0 else "in the limit")
    assert distance(attend(keys, found.query), target) <= (1e-12 if min(weights) > 0 else 1e-6)


def test_weights_outside_the_span_are_impossible():
    target = np.array([0.4, 0.3, 0.2, 0.1])
    found = reach(SQUARE, target)  # log w would have to be a plane over the square
    assert found.kind == "impossible"
    assert "span only 3 dimensions" in found.reason
    plane = attend(SQUARE, np.array([0.5, -0.7]))
    assert reach(SQUARE, plane).kind == "exact"


def test_moving_and_stretching_keys_changes_no_answer():
    keys = published_keys()
    for target in (uniform(4, 1), uniform(4, 0, 1), np.array([0.4, 0.3, 0.2, 0.1])):
        first = attend(keys, reach(keys, target).query)
        moved = 1000 * keys + np.array([5.0, -3.0, 8.0])
        assert np.allclose(first, attend(moved, reach(moved, target).query), atol=1e-6)
