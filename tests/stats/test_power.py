"""Forecasts: they name the effect and the number of pairs that they promise. tests/calibration compares them with
simulated studies."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats as distributions

from headtohead.errors import InputError
from headtohead.stats import (
    ALPHA,
    LEAST_PAIRS,
    MOST_PAIRS,
    Design,
    detectable,
    pairs_for,
    pairs_for_equivalence,
    power,
)
from headtohead.stats.power import _p_of_first
from headtohead.stats.sequential import judge


@pytest.mark.parametrize("n", [6, 8, 9, 20])
@pytest.mark.parametrize("arms", [1, 4])
def test_power_rises_with_the_effect_from_5_percent(n, arms):
    chances = [power(effect, n, arms) for effect in np.linspace(0, 2, 9)]
    assert chances == sorted(chances)
    assert 0 < chances[0] <= ALPHA + 2 * math.sqrt(ALPHA / 3000)
    assert chances[-1] > 0.6
    assert power(-1.0, n, arms) == pytest.approx(power(1.0, n, arms), abs=0.04)


@pytest.mark.parametrize(("n", "arms"), [(6, 1), (7, 3)])
def test_simulated_p_is_that_of_the_rule(n, arms):
    d = np.random.default_rng(n).normal(0.5, size=(30, n, arms))
    centred = d.copy()
    centred[:, :, 1:] -= d[:, :, 1:].mean(axis=1, keepdims=True)
    slow = [judge(one, Design((n,), reserve=0.0))[0].p for one in d]
    assert _p_of_first(centred) == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize("n", [9, 20])
def test_a_huge_effect_is_always_detected(n):
    assert [power(effect, n) for effect in (4.0, 8.0, 20.0, 1e3, 1e15)] == pytest.approx([1.0] * 5)


@pytest.mark.parametrize("n", [7, 12])
def test_correlated_arms_cost_less_power(n):
    together, apart = (power(3 / math.sqrt(n), n, 8, correlation) for correlation in (0.99, 0.0))
    assert together > apart + 0.03


@pytest.mark.parametrize("n", [8, 20])
def test_less_error_costs_power(n):
    chances = [power(1.0, n, alpha=alpha) for alpha in (0.01, 0.03, 0.05, 0.2)]
    assert chances == sorted(chances)
    assert chances[0] < chances[-1] - 0.05
    assert detectable(n, alpha=0.03) > detectable(n)
    assert pairs_for(0.7, alpha=0.01) > pairs_for(0.7)
    fewest = next(k for k in itertools.count() if power(0.7, k, alpha=0.01) >= 0.8)
    assert pairs_for(0.7, alpha=0.01) == fewest
    assert pairs_for_equivalence(0.7, alpha=0.01) > pairs_for_equivalence(0.7)


def test_fewer_than_six_pairs_have_no_power():
    assert [power(100.0, n) for n in range(6)] == [0.0] * 6
    assert detectable(5) == math.inf


def test_no_arms_are_refused():
    with pytest.raises(InputError, match="arms"):
        power(1.0, 8, 0)


@pytest.mark.parametrize("chance", [0.5, 0.8, 0.9])
@pytest.mark.parametrize(("n", "arms"), [(6, 1), (8, 1), (9, 1), (30, 1), (6, 4), (12, 4)])
def test_detectable_effects_reach_the_asked_power(n, arms, chance):
    effect = detectable(n, arms, chance)
    assert power(effect, n, arms) >= chance
    assert power(effect * 0.995, n, arms) < chance
    assert detectable(n + 3, arms, chance) < effect < detectable(n, arms, chance + 0.05)


def test_an_effect_that_no_pairs_detect_is_infinite():
    assert detectable(6, alpha=0.01) == math.inf, "the smallest p of six pairs is 1/32"


def test_power_defaults_to_80_percent():
    assert detectable(10) == detectable(10, 1, 0.8)
    assert pairs_for(0.7) == pairs_for(0.7, 1, 0.8)
    assert pairs_for_equivalence(0.7) == pairs_for_equivalence(0.7, 1, 0.8)


@pytest.mark.parametrize("chance", [0.5, 0.8, 0.9])
@pytest.mark.parametrize(
    ("effect", "arms"), [(0.3, 1), (0.6, 1), (0.9, 1), (1.3, 1), (2.0, 1), (9.0, 1), (0.8, 4), (1.5, 4)]
)
def test_pairs_for_returns_the_smallest_number(effect, arms, chance):
    fewest = next(n for n in itertools.count() if power(effect, n, arms) >= chance)
    assert pairs_for(effect, arms, chance) == fewest


def test_larger_effects_need_fewer_pairs():
    needed = [pairs_for(effect) for effect in np.geomspace(0.05, 10, 25)]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] == pytest.approx(((1.96 + 0.8416) / 0.05) ** 2, rel=0.01)
    assert needed[-1] == LEAST_PAIRS
    assert pairs_for(1e-3) is pairs_for(0.0) is pairs_for(math.nan) is None


def test_pairs_for_counts_up_to_ten_thousand():
    assert power(0.03, 9000) > 0.8
    assert MOST_PAIRS == 10_000
    assert pairs_for(0.03) == pytest.approx(((1.96 + 0.8416) / 0.03) ** 2, rel=0.01)


@pytest.mark.parametrize("chance", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("margin", [0.4, 0.7, 1.0, 1.4])
def test_pairs_for_equivalence_returns_the_smallest_number(margin, chance):
    """Against Student's t, which the sign-flip test approaches: two one-sided tests of normal values."""
    n, studies = pairs_for_equivalence(margin, 1, chance), 30_000
    make = np.random.default_rng(n)
    error = 2.5 * math.sqrt(chance * (1 - chance) / studies)

    def found(n: int) -> float:
        d = make.normal(size=(studies, n))
        half = distributions.t.ppf(0.95, n - 1) * d.std(axis=1, ddof=1) / math.sqrt(n)
        return float((np.abs(d.mean(axis=1)) + half < margin).mean())

    assert found(n) >= chance - error
    if n > 6:
        assert found(n - 1) < chance + error


def test_more_arms_need_more_pairs_for_equivalence():
    needed = [pairs_for_equivalence(0.6, arms) for arms in (1, 4, 8)]
    assert needed == sorted(set(needed))


def test_narrower_margins_need_more_pairs():
    needed = [pairs_for_equivalence(margin) for margin in (0.1, 0.2, 0.5, 1.0, 2.0, 100.0)]
    assert needed == sorted(needed, reverse=True)
    assert needed[-1] == LEAST_PAIRS
    assert pairs_for_equivalence(1e-4) is pairs_for_equivalence(0.0) is pairs_for_equivalence(math.nan) is None
