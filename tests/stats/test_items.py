"""Intervals over test texts, and over seeds and test texts, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from headtohead.errors import InputError
from headtohead.stats import CrossedTest, crossed, interval, mcnemar, over_clusters, over_items
from headtohead.stats.items import LEAST_CLUSTERS

few = settings(max_examples=50, deadline=None)


# -- McNemar -----------------------------------------------------------------------------------------------------------


@few
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
def test_mcnemar_is_the_sign_test_of_discordant_items(rows):
    gained, lost = rows.count((False, True)), rows.count((True, False))
    found = mcnemar([a for a, _ in rows], [b for _, b in rows])
    assert found == pytest.approx(
        distributions.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0, 1e-12
    )
    by_hand = 2 * sum(math.comb(gained + lost, i) for i in range(min(gained, lost) + 1)) / 2 ** (gained + lost)
    assert found == pytest.approx(min(1.0, by_hand), abs=1e-12)


def test_mcnemar_matches_a_hand_calculation():
    both, neither = [(1, 1)] * 50, [(0, 0)] * 7
    a, b = zip(*both, *neither, *[(0, 1)] * 9, *[(1, 0)] * 1, strict=True)
    assert mcnemar(a, b) == mcnemar(b, a) == pytest.approx(2 * (1 + 10) / 1024)


def test_mcnemar_refuses_different_items():
    with pytest.raises(InputError, match="2 and 3"):
        mcnemar([True, False], [True, False, True])


# -- over texts --------------------------------------------------------------------------------------------------------


def test_item_results_are_weighted_and_clusters_counted():
    found = over_items([1.0, 2.0, 6.0], [1.0, 1.0, 2.0], ["a", "b", "a"])
    assert found.difference == pytest.approx((1 + 2 + 12) / 4)
    assert (found.items, found.clusters, found.p) == (3, 2, None)
    assert found == over_items([1.0, 2.0, 6.0], [1.0, 1.0, 2.0], [7, 3, 7])


def test_too_few_clusters_give_no_interval():
    d = np.arange(12.0)
    for count in (1, LEAST_CLUSTERS - 1):
        found = over_items(d, clusters=np.arange(12) % count)
        assert (found.difference, found.low, found.high) == (5.5, -math.inf, math.inf)
        assert not found.has_interval
    assert over_items(d, clusters=np.arange(12) % LEAST_CLUSTERS).has_interval


def test_equal_clusters_give_students_interval_of_their_means():
    d = np.random.default_rng(0).normal(size=(9, 20))
    found = over_items(d.ravel(), clusters=np.repeat(np.arange(9), 20))
    assert (found.low, found.high) == pytest.approx(interval(d.mean(axis=1)))


def test_unequal_clusters_are_left_out_one_at_a_time():
    make = np.random.default_rng(1)
    sizes = make.integers(1, 9, size=11)
    clusters, m = np.repeat(np.arange(11), sizes), 11
    d, w = make.normal(size=sizes.sum()), make.integers(1, 5, size=sizes.sum()).astype(float)
    without = [np.average(d[clusters != c], weights=w[clusters != c]) for c in range(m)]
    error = math.sqrt((m - 1) / m * sum((x - np.mean(without)) ** 2 for x in without))
    found = over_items(d, w, clusters)
    assert found.difference == pytest.approx(np.average(d, weights=w))
    assert found.high - found.difference == pytest.approx(distributions.t.ppf(0.975, m - 1) * error)
    assert found.difference - found.low == pytest.approx(found.high - found.difference)
    mixed = make.permutation(len(d))
    again = over_items(d[mixed], w[mixed], clusters[mixed])
    assert (again.low, again.high) == pytest.approx((found.low, found.high))


def test_items_outside_clusters_count_in_the_mean_only():
    d = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 700.0])
    found = over_items(d, clusters=[0, 1, 2, 3, 4, 5, -1])
    inside = over_items(d[:6])
    assert found.difference == pytest.approx(d.mean())
    assert found.high - found.low == pytest.approx(inside.high - inside.low)
    assert (found.items, found.clusters) == (7, 6)


def test_items_of_weight_zero_make_no_cluster():
    d = np.arange(8.0)
    found = over_items(d, [1.0] * 6 + [0.0] * 2)
    assert found == over_items(d, [1.0] * 6 + [0.0] * 2, np.arange(8))
    assert found.clusters == 6
    assert (found.low, found.high) == pytest.approx(interval(d[:6]))


@pytest.mark.parametrize(
    "given",
    [
        ([],),
        ([1.0, 2.0], [1.0]),
        ([1.0, 2.0], None, ["a"]),
        (["a", "b"],),
        ([[1.0, 2.0]],),
        (1.0,),
        ([1.0, math.inf],),
        ([1.0, 2.0], [0.0, 0.0]),
        ([1.0, 2.0], [-1.0, 2.0]),
    ],
)
def test_items_without_a_mean_are_refused(given):
    with pytest.raises(InputError):
        over_items(*given)


# -- over seeds and texts ----------------------------------------------------------------------------------------------


def half(found: CrossedTest) -> float:
    return found.high - found.difference


def test_the_crossed_variance_is_that_of_two_random_effects():
    make, n, m = np.random.default_rng(0), 7, 15
    d = make.normal(size=(n, 1)) + make.normal(size=(1, m)) + make.normal(size=(n, m))
    found = crossed(d, np.ones(m))
    squares = {"seed": 0.0, "text": 0.0, "both": 0.0}  # mean squares of the two-way table, by loops
    for s in range(n):
        squares["seed"] += m * (d[s].mean() - d.mean()) ** 2 / (n - 1)
        for c in range(m):
            squares["both"] += (d[s, c] - d[s].mean() - d[:, c].mean() + d.mean()) ** 2 / (n - 1) / (m - 1)
    for c in range(m):
        squares["text"] += n * (d[:, c].mean() - d.mean()) ** 2 / (m - 1)
    variance = (squares["seed"] + squares["text"] - squares["both"]) / (n * m)
    assert variance > max(squares["seed"], squares["text"]) / (n * m)
    assert found.difference == pytest.approx(d.mean())
    assert half(found) == pytest.approx(distributions.t.ppf(0.975, n - 1) * math.sqrt(variance))
    assert (found.seeds, found.clusters) == (n, m)
    assert half(crossed(d.T, np.ones(n))) == pytest.approx(half(found)), "seeds and texts are treated alike"


def test_the_crossed_interval_is_not_narrower_than_either_alone():
    make = np.random.default_rng(2)
    for _ in range(50):
        d = make.normal(size=(8, 12))
        found = crossed(d, np.ones(12))
        seeds = interval(d.mean(axis=1))
        texts = over_clusters(d.mean(axis=0), np.ones(12), float(d.mean()), 12)
        assert half(found) >= (seeds[1] - seeds[0]) / 2 * (1 - 1e-12)
        assert half(found) >= (texts.high - texts.low) / 2 * (1 - 1e-12)


def test_weights_count_like_repeated_clusters():
    """A cluster of twice the weight moves the mean twice as much; equal weights of any size give the same interval."""
    d = np.random.default_rng(3).normal(size=(6, 10))
    assert crossed(d, np.full(10, 7.0)) == crossed(d, np.ones(10))
    weights = np.arange(1.0, 11.0)
    assert crossed(d, weights).difference == pytest.approx(np.average(d.mean(axis=0), weights=weights))
    lone = np.where(np.arange(10) == 4, 1.0, 1e-9)
    seeds = interval(d[:, 4])
    assert half(crossed(d, lone)) >= (seeds[1] - seeds[0]) / 2 * 0.99


def test_a_given_difference_is_the_middle():
    d = np.random.default_rng(4).normal(size=(6, 10))
    found = crossed(d, np.ones(10), 5.0)
    assert (found.difference, half(found)) == (5.0, pytest.approx(half(crossed(d, np.ones(10)))))


def test_one_seed_or_few_clusters_give_no_crossed_interval():
    d = np.random.default_rng(5).normal(size=(6, LEAST_CLUSTERS))
    assert crossed(d, np.ones(LEAST_CLUSTERS)).has_interval
    assert not crossed(d[:1], np.ones(LEAST_CLUSTERS)).has_interval
    assert not crossed(d[:, 1:], np.ones(LEAST_CLUSTERS - 1)).has_interval


def test_a_table_without_a_weight_per_cluster_is_refused():
    with pytest.raises(InputError, match="one column per cluster"):
        crossed(np.ones((6, 8)), np.ones(7))
    with pytest.raises(InputError, match="one row of differences per seed"):
        crossed(np.ones(8), np.ones(8))
