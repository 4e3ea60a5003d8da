"""The test for unplanned analyses: its capital is a fair bet, and it holds however often somebody looks."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtohead.stats.anytime import KAPPAS, anytime_interval, anytime_p, capital, reserve_parts
from helpers.verdicts import few


def slow_path(d: list[float]) -> list[float]:
    """The capital after each pair, by its definition."""
    path, products = [], {(side, kappa): 1.0 for side in (1, -1) for kappa in KAPPAS}
    for s in range(1, len(d) + 1):
        root = math.sqrt(sum(x * x for x in d[:s]) / s)
        for side, kappa in products:
            products[side, kappa] *= 2 / (1 + math.exp(-2 * side * kappa * d[s - 1] / root)) if root else 1.0
        path.append(sum(products.values()) / len(products))
    return path


@few
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=10))
def test_capital_matches_its_definition(d):
    assert capital(np.array(d, dtype=float)) == pytest.approx(max(0.0, math.log(max(slow_path(d)))), abs=1e-9)


@few
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8))
def test_capital_gains_nothing_on_average_over_all_signs(sizes):
    every = list(itertools.product((1, -1), repeat=len(sizes)))
    paths = np.array([slow_path([s * x for s, x in zip(signs, sizes, strict=True)]) for signs in every])
    assert paths.mean(axis=0) == pytest.approx(np.ones(len(sizes)), abs=1e-9)


@pytest.mark.parametrize("n", [4, 8])
def test_ville_holds_exactly_over_all_signs(n):
    sizes = np.random.default_rng(n).lognormal(size=n)
    every = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    largest = np.array([capital(signs * sizes) for signs in every])
    for error in (0.5, 0.2, 0.1, 0.05):
        assert (largest >= -math.log(error)).mean() <= error


@pytest.mark.parametrize("kind", ["normal", "t3", "laplace"])
def test_capital_rarely_grows_large_without_an_effect(kind):
    make, studies = np.random.default_rng(0), 1500
    draw = {"normal": make.normal, "t3": lambda size: make.standard_t(3, size=size), "laplace": make.laplace}[kind]
    largest = np.array([capital(d) for d in draw(size=(studies, 60))])
    for error in (0.2, 0.05):
        assert (largest >= -math.log(error)).mean() <= error + 2 * math.sqrt(error / studies)
    assert (largest >= math.log(5)).any()


def test_capital_never_falls_and_ignores_scale_sign_and_gaps():
    d = np.random.default_rng(1).normal(0.8, size=20)
    rising = [capital(d[:n]) for n in range(21)]
    assert rising == sorted(rising)
    assert rising[0] == 0.0
    assert capital(-d) == pytest.approx(capital(d))
    assert capital(d * 1e-200) == pytest.approx(capital(d)) == pytest.approx(capital(d * 1e200))
    assert capital(np.insert(d, 3, math.nan)) == capital(d)
    assert capital(np.zeros(9)) == capital(np.array([math.nan])) == 0.0


def test_an_effect_is_found_some_time():
    make = np.random.default_rng(2)
    for size, n in ((0.5, 200), (1.0, 60), (3.0, 20)):
        assert anytime_p(make.normal(size, size=n)) < 0.005


def test_p_is_corrected_for_arms_and_at_most_one():
    d = np.random.default_rng(3).normal(2, size=12)
    assert anytime_p(d) == pytest.approx(math.exp(-capital(d)))
    assert anytime_p(d, 3) == pytest.approx(3 * anytime_p(d))
    assert anytime_p(np.array([1.0, -1.0]), 8) == 1.0


@pytest.mark.parametrize("arms", [1, 4])
@pytest.mark.parametrize("seed", range(6))
def test_interval_holds_the_differences_that_were_never_excluded(seed, arms):
    d, error = np.random.default_rng(seed).normal(1, size=25), 0.05
    low, high = anytime_interval(d, error, arms)
    assert low < d.mean() < high
    width = high - low
    for share in (-0.5, -0.01, -0.001, 0.001, 0.01, 0.5, 0.99, 0.999, 1.001, 1.01, 1.5):
        shift = low + share * width
        assert (low <= shift <= high) == (arms * math.exp(-capital(d - shift)) > error)
    assert (low <= 0 <= high) == (anytime_p(d, arms) > error)


def test_interval_is_wider_for_more_arms_and_less_error():
    d = np.random.default_rng(4).normal(size=30)
    widths = [np.ptp(anytime_interval(d, *given)) for given in ((0.1, 1), (0.05, 1), (0.05, 4), (0.005, 4))]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


@pytest.mark.parametrize("n", range(4, 13))
def test_a_constant_difference_is_excluded_when_its_capital_suffices(n):
    d = np.full(n, 0.7)
    low, high = anytime_interval(d, 0.05)
    decided = low > 0
    assert decided == (anytime_p(d) <= 0.05) == (capital(d) >= math.log(20))
    assert (low, high) == ((pytest.approx(0.7), pytest.approx(0.7)) if decided else (-math.inf, math.inf))


def test_too_few_pairs_or_no_error_give_no_interval():
    d = np.random.default_rng(5).normal(5, size=20)
    nothing = (-math.inf, math.inf)
    assert anytime_interval(d[:1], 0.05) == anytime_interval(d, 0.0) == anytime_interval(d[:0], 0.05) == nothing
    assert anytime_interval(d[:4], 0.005) == nothing, "four pairs multiply the capital by 16 at most"


@pytest.mark.parametrize("planned", [1, 2, 5])
@pytest.mark.parametrize("later", [0, 1, 3, 200])
def test_the_parts_of_the_reserve_never_exceed_it(planned, later):
    parts = reserve_parts(planned, later)
    assert len(parts) == planned + later
    assert sum(Fraction(1, part) for part in parts) <= 1
    assert parts == sorted(parts[:planned]) + sorted(parts[planned:])
    assert parts[:planned] == reserve_parts(planned, 0), "an arm that is added changes no other"
