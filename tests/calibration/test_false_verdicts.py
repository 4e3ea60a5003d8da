"""Verdicts are wrong no more often than promised, and effects are seen as often as forecast: simulated studies."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from headtohead.stats import compare, compare_all, detectable, pairs_for, pairs_for_equivalence, power

from . import simulated
from .simulated import NOISES, PAIRS, PAIRS_OF_EIGHT, STUDIES, called_equivalent, called_real, false_verdicts

pytestmark = pytest.mark.usefixtures("no_advice")


# -- false verdicts ----------------------------------------------------------------------------------------------------


def at_most(share: float, studies: int) -> float:
    """Two standard errors above: a rule that errs exactly so often stays below it 98 times of 100."""
    return share + 2 * math.sqrt(share * (1 - share) / studies)


def by_compare(d: np.ndarray) -> list[list[bool]]:
    zero = np.zeros(d.shape[1])
    studies = ({str(k): arm for k, arm in enumerate(one.T)} for one in d)
    return [[v.verdict in ("better", "worse") for v in compare_all(zero, arms).values()] for arms in studies]


@pytest.mark.parametrize(("n", "arms", "studies"), [(6, 1, 40), (6, 8, 20), (7, 2, 20), (10, 4, 20), (20, 1, 10)])
def test_vectorised_verdicts_equal_single_verdicts(n, arms, studies):
    make = np.random.default_rng([n, arms])
    d = (
        make.normal(size=(studies, n, arms))
        + make.normal(size=(studies, n, 1))
        + np.linspace(0, 4, studies)[:, None, None]
    )
    found = called_real(d)
    assert found.tolist() == by_compare(d)
    assert found.any()
    assert not found.all()


@pytest.mark.parametrize("n", PAIRS)
@pytest.mark.parametrize("kind", NOISES)
def test_at_most_one_verdict_in_twenty_is_false(kind, n):
    found = false_verdicts(kind, n, 1)
    assert found.mean() <= at_most(0.05, STUDIES)
    assert found.any()
    some = simulated.nulls(kind, STUDIES, n, 1)[:20]
    assert found[:20].tolist() == [compare(one[:, 0], one[:, 1]).verdict in ("better", "worse") for one in some]


@pytest.mark.parametrize("n", PAIRS_OF_EIGHT)
@pytest.mark.parametrize("kind", NOISES)
def test_eight_arms_without_effect_rarely_give_any_verdict(kind, n):
    found = false_verdicts(kind, n, 8)
    # flipping whole seeds is exact for symmetric noise; a skewed control all arms share costs up to a point
    assert found.mean() <= at_most(0.06 if kind in ("exponential", "log-normal (σ 1.5)") else 0.05, STUDIES)
    assert found.any()


@pytest.mark.parametrize(("size", "share"), [(3, 0.60), (4, 0.85), (6, 0.97)])
def test_four_large_effects_among_eight_are_found_with_six_pairs(size, share):
    found, wrong = simulated.four_of_eight(size)
    assert found >= share
    assert wrong <= at_most(0.05, 1000)


@pytest.mark.parametrize("n", [6, 10, 20])
def test_intervals_cover_the_truth_in_95_percent_of_studies(n):
    assert 0.935 < simulated.coverage(n) < 0.965


@pytest.mark.parametrize("margin", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("n", [6, 10, 20])
def test_a_difference_equal_to_the_margin_is_rarely_equivalent(n, margin):
    found = simulated.equivalent_at_the_margin(n, margin)
    assert found.mean() <= at_most(0.05, len(found))
    d = np.random.default_rng(n).normal(margin, 1.0, size=(20_000, n))
    some = [compare(np.zeros(n), one, margin).verdict == "equivalent" for one in d[:30]]
    assert found[:30].tolist() == some


@pytest.mark.parametrize("n", PAIRS)
@pytest.mark.parametrize("kind", simulated.SKEWED)
def test_vectorised_verdicts_of_skewed_values_equal_compare(kind, n):
    """Not what is promised: the table says how often it errs here."""
    found = simulated.false_verdicts_of_skewed(kind, n)
    make = np.random.default_rng([n, list(simulated.SKEWED).index(kind), 5])
    some = simulated.SKEWED[kind](make, (STUDIES, n, 1))[:20, :, 0]
    assert found[:20].tolist() == [compare(np.zeros(n), one).verdict in ("better", "worse") for one in some]


def test_the_docs_show_these_figures():
    stored = Path(__file__).parents[2] / "benchmarks" / "measured" / "calibration.json"
    said = json.loads(stored.read_text(encoding="utf-8"))
    made = simulated.table()
    assert {k: said[k] for k in made} == made, "python benchmarks/measure/calibration.py writes them anew"


# -- forecasts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "arms"),
    [
        *itertools.product([6, 8, 10], [1, 4]),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in itertools.product([7, 9, 12, 20], [1, 4])),
    ],
)
def test_effects_are_detected_as_often_as_forecast(n, arms):
    studies = 2600 if n == 20 else 10_000
    make = np.random.default_rng([n, arms, 7])
    d = (make.normal(size=(studies, n, 1)) + make.normal(size=(studies, n, arms))) / math.sqrt(2)
    for strength in (2.0, 3.5) if n == 20 else (2.0, 3.0, 4.0):
        effect = strength / math.sqrt(n)
        seen = called_real(d + np.array([effect] + [0.0] * (arms - 1)))[:, 0].mean()
        assert seen == pytest.approx(power(effect, n, arms), abs=0.02), effect


@pytest.mark.parametrize("n", [6, 8, 9, 20])
@pytest.mark.parametrize("arms", [1, 4])
def test_power_rises_with_the_effect_from_5_percent(n, arms):
    chances = [power(effect, n, arms) for effect in np.linspace(0, 2, 9)]
    assert chances == sorted(chances)
    assert 0 < chances[0] <= at_most(0.05, 3000)
    assert chances[-1] > 0.6
    assert power(-1.0, n, arms) == pytest.approx(power(1.0, n, arms), abs=0.04)


@pytest.mark.parametrize("n", [9, 20])
def test_a_huge_effect_is_always_detected(n):
    assert [power(effect, n) for effect in (4.0, 8.0, 20.0, 1e3, 1e15)] == pytest.approx([1.0] * 5)


@pytest.mark.parametrize("n", [7, 12])
def test_correlated_arms_cost_less_power(n):
    together, apart = (power(3 / math.sqrt(n), n, 8, correlation) for correlation in (0.99, 0.0))
    assert together > apart + 0.03


def test_fewer_than_six_pairs_have_no_power():
    assert [power(100.0, n) for n in range(6)] == [0.0] * 6
    assert detectable(5) == math.inf


@pytest.mark.parametrize("chance", [0.5, 0.8, 0.9])
@pytest.mark.parametrize(("n", "arms"), [(6, 1), (8, 1), (9, 1), (30, 1), (6, 4), (12, 4)])
def test_detectable_effects_reach_the_asked_power(n, arms, chance):
    effect = detectable(n, arms, chance)
    assert power(effect, n, arms) >= chance
    assert power(effect * 0.995, n, arms) < chance
    assert detectable(n + 3, arms, chance) < effect < detectable(n, arms, chance + 0.05)


def test_power_defaults_to_80_percent():
    assert detectable(10) == detectable(10, 1, 0.8)
    assert pairs_for(0.7) == pairs_for(0.7, 1, 0.8)
    assert pairs_for_equivalence(0.7) == pairs_for_equivalence(0.7, 0.8)


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
    assert needed[-1] == 6
    assert pairs_for(1e-3) is pairs_for(0.0) is pairs_for(math.nan) is None


def test_pairs_for_counts_up_to_ten_thousand():
    assert power(0.03, 9000) > 0.8
    assert pairs_for(0.03) == pytest.approx(((1.96 + 0.8416) / 0.03) ** 2, rel=0.01)


@pytest.mark.parametrize("chance", [0.5, 0.8, 0.9])
@pytest.mark.parametrize("margin", [0.4, 0.7, 1.0, 1.4])
def test_pairs_for_equivalence_returns_the_smallest_number(margin, chance):
    n, studies = pairs_for_equivalence(margin, chance), 30_000
    make = np.random.default_rng(n)
    error = 2.5 * math.sqrt(chance * (1 - chance) / studies)
    assert called_equivalent(make.normal(size=(studies, n)), margin).mean() >= chance - error
    if n > 6:
        assert called_equivalent(make.normal(size=(studies, n - 1)), margin).mean() < chance + error


def test_narrower_margins_need_more_pairs():
    needed = [pairs_for_equivalence(margin) for margin in (0.1, 0.2, 0.5, 1.0, 2.0, 100.0)]
    assert needed == sorted(needed, reverse=True)
    assert needed[-1] == 6
    assert pairs_for_equivalence(1e-4) is pairs_for_equivalence(0.0) is pairs_for_equivalence(math.nan) is None
