"""Sign patterns: every one of them, or a subgroup; t squared; the p of one arm alone."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats as distributions

from headtohead.stats import EXACT_PAIRS, sign_patterns
from headtohead.stats.signflip import _all_products, alone, t_squared, t_squared_of
from helpers.verdicts import few


@pytest.mark.parametrize("n", [2, 5, EXACT_PAIRS])
def test_each_sign_pattern_or_its_mirror_is_used_once(n):
    patterns = sign_patterns(n)
    assert set(np.unique(patterns)) <= {1.0, -1.0}
    assert (patterns[0] == 1).all()
    assert len(np.unique(np.concatenate([patterns, -patterns]), axis=0)) == 2**n == 2 * len(patterns)


@pytest.mark.parametrize("n", [15, 16, 20, 40, 80])
def test_above_14_pairs_the_patterns_are_a_group(n):
    patterns = sign_patterns(n)
    assert patterns.shape == (2 ** (EXACT_PAIRS - 1), n)
    assert (patterns[0] == 1).all()
    everything = {row.tobytes() for row in np.concatenate([patterns, -patterns])}
    assert len(everything) == 2**EXACT_PAIRS
    assert np.array_equal(patterns[:, :EXACT_PAIRS], sign_patterns(EXACT_PAIRS)), "all combinations of the first 14"
    make = np.random.default_rng(n)
    for i, j in make.integers(len(patterns), size=(300, 2)):
        assert (patterns[i] * patterns[j]).tobytes() in everything
        assert (-patterns[i] * patterns[j]).tobytes() in everything


@pytest.mark.parametrize("n", [15, 20, 40, 80])
def test_patterns_of_a_group_are_fair_and_uncorrelated(n):
    both = np.concatenate([sign_patterns(n), -sign_patterns(n)])
    assert (both.mean(axis=0) == 0).all()
    assert np.array_equal(both.T @ both / len(both), np.eye(n)), "two pairs are never flipped together always"


def test_later_signs_are_products_of_odd_numbers_of_signs():
    """So that the opposite of a pattern is a pattern."""
    assert all(len(chosen) % 2 == 1 and len(chosen) > 1 for chosen in _all_products())
    assert len(set(_all_products())) == 2 ** (EXACT_PAIRS - 1) - EXACT_PAIRS


def test_patterns_of_fewer_pairs_continue_in_those_of_more():
    assert np.array_equal(sign_patterns(40)[:, :16], sign_patterns(16))
    short = {row.tobytes() for row in sign_patterns(20)[:, :8].copy()}
    assert short == {row.tobytes() for row in sign_patterns(8)}


@pytest.mark.parametrize("shift", [0.2, 0.4, 0.6, 0.9])
def test_p_of_a_group_is_near_that_of_all_patterns(shift):
    n = 18
    d = np.random.default_rng(3).normal(size=n) + shift
    every = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    exact = (np.abs(every @ d) >= abs(d.sum()) - 1e-9).mean()
    draws = len(sign_patterns(n))
    assert alone(d) == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / draws) + 1 / draws)
    assert alone(d) >= 1 / draws


@few
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=8))
@example([1, 1, 1, 1, 1, 1])
@example([0, 0, 5, 0])
def test_p_alone_is_the_share_of_patterns_as_extreme(d):
    assume(sum(d) != 0 or not any(d))
    beyond = 0
    for signs in itertools.product((1, -1), repeat=len(d)):
        beyond += abs(sum(sign * value for sign, value in zip(signs, d, strict=True))) >= abs(sum(d))
    assert alone(np.array(d, dtype=float)) == pytest.approx(beyond / 2 ** len(d), abs=1e-12)


@pytest.mark.parametrize("n", [5, 8, 10])
def test_p_alone_equals_scipys_exact_permutation_test(n):
    d = np.random.default_rng(n).normal(0.5, size=n)
    theirs = distributions.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert alone(d) == pytest.approx(theirs.pvalue, abs=1e-12)


def test_p_alone_leaves_out_missing_values():
    d = np.array([1.0, math.nan, 2.0, 0.5, math.nan, 3.0])
    assert alone(d) == alone(d[np.isfinite(d)]) == 1 / 8
    assert alone(np.array([math.nan])) == alone(np.array([])) == 1.0
    assert alone(np.zeros(6)) == alone(np.array([3.0, -2, -6, -2, 1, 6])) == 1.0


@few
@given(st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=2, max_size=6))
def test_t_squared_is_students_t_for_each_pattern(d):
    values = np.array([math.nan if x is None else float(x) for x in d])
    found = t_squared(values[:, None], sign_patterns(len(d)))[:, 0]
    for signs, t2 in zip(sign_patterns(len(d)).astype(int).tolist(), found, strict=True):
        there = [Fraction(s * x) for s, x in zip(signs, d, strict=True) if x is not None]
        n, total = len(there), sum(there)
        rest = n * sum(x * x for x in there) - total**2
        slow = 0.0 if n < 2 or total == 0 else float((n - 1) * total**2 / rest) if rest else math.inf
        assert t2 == pytest.approx(slow, rel=1e-9)


def test_t_squared_matches_scipy_and_survives_tiny_values():
    d = np.random.default_rng(0).normal(1, 2, size=(9, 3))
    theirs = distributions.ttest_1samp(d, 0).statistic ** 2
    assert t_squared(d, sign_patterns(9))[0] == pytest.approx(theirs)
    assert t_squared(d * 1e-200, sign_patterns(9))[0] == pytest.approx(theirs)


def test_t_squared_of_rounded_shares():
    assert t_squared_of(np.array([0.0, 1e-20, 0.5, 1 - 1e-14, 1.0]), 5).tolist() == [0, 0, 4, math.inf, math.inf]
    assert t_squared_of(np.array([1.0]), 1).tolist() == [0.0], "one value has no t"
