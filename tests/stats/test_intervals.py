"""Intervals: Student's t, and the differences that a test does not exclude."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as distributions

from headtohead.stats import interval, t_quantile
from headtohead.stats.intervals import not_excluded
from helpers.verdicts import few


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [2, 3, 8, 30])
def test_interval_is_that_of_the_t_test(n, level):
    d = np.random.default_rng(n).normal(1, 3, size=n)
    theirs = distributions.ttest_1samp(d, 0).confidence_interval(level)
    assert interval(d, level) == pytest.approx(tuple(theirs), abs=1e-9)


@pytest.mark.parametrize("n", [0, 1])
def test_one_value_has_no_interval(n):
    assert interval(np.ones(n)) == (-math.inf, math.inf)


def test_quantiles_match_scipy():
    for n, share in [(2, 0.9), (7, 0.975), (30, 0.5), (9, 0.01)]:
        assert t_quantile(share, n) == pytest.approx(distributions.t.ppf(share, n - 1))


@few
@given(st.floats(-50, 50), st.floats(0.01, 3), st.floats(-40, 0), st.floats(0, 40))
def test_inverting_a_test_returns_what_it_keeps(mean, error, below, above):
    kept = mean + below * error, mean + above * error
    low, high = not_excluded(lambda shift: not kept[0] <= shift <= kept[1], mean, error)
    assert low == pytest.approx(kept[0], rel=1e-9, abs=2e-4 * error * max(2.0, -below))
    assert high == pytest.approx(kept[1], rel=1e-9, abs=2e-4 * error * max(2.0, above))
    assert (low <= 0 <= high) == (kept[0] <= 0 <= kept[1])
    if kept[0] <= 0 <= kept[1]:
        rounding = 1e-12 * (1 + abs(mean))
        assert low <= kept[0] + rounding
        assert high >= kept[1] - rounding


@pytest.mark.parametrize("sign", [1, -1])
def test_an_end_at_zero_is_on_the_side_that_the_test_says(sign):
    mean = sign * 3.7
    open_end = not_excluded(lambda shift: sign * shift <= 0, mean, 1.0)
    closed_end = not_excluded(lambda shift: sign * shift < 0, mean, 1.0)
    assert min(sign * end for end in open_end) > 0
    assert min(sign * end for end in closed_end) <= 0
    assert min(sign * end for end in open_end) == pytest.approx(0, abs=1e-3)
    assert min(sign * end for end in closed_end) == pytest.approx(0, abs=1e-3)


def test_zero_decides_where_the_kept_differences_have_a_gap():
    low, _ = not_excluded(lambda shift: shift < -1 or 0.5 < shift < 1.5, 5.0, 1.0)
    assert low == pytest.approx(-1, abs=1e-3), "zero is kept"
    low, _ = not_excluded(lambda shift: shift < -3 or -2 < shift < 2, 5.0, 1.0)
    assert low == pytest.approx(2, abs=1e-3), "zero is excluded"


def test_a_test_that_excludes_nothing_has_no_ends():
    assert not_excluded(lambda _: False, 3.0, 0.1) == (-math.inf, math.inf)
    low, high = not_excluded(lambda shift: shift < 1, 3.0, 0.1)
    assert (low, high) == (pytest.approx(1, abs=1e-2), math.inf)
