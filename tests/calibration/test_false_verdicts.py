"""Verdicts err no more often than promised: a few hundred simulated studies of every design. The table in the docs has
thousands (benchmarks/measure/calibration.py)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headtohead.stats import Design, compare_all, sequential_design
from headtohead.stats.anytime import anytime_interval, capital
from headtohead.stats.sequential import judge

from . import simulated
from .simulated import DESIGNS, MIXED, NOISES, RESIDUALS, UNPLANNED, capitals, decide, needed, noise

STUDIES = 300
SMALL = [name for name, design in DESIGNS.items() if design.pairs <= 10]
LARGE = [name for name, design in DESIGNS.items() if design.pairs > 10]


def at_most(share: float, studies: int) -> float:
    """Three standard errors above: a rule that errs exactly so often stays below it 999 times of 1,000."""
    return share + 3 * math.sqrt(share * (1 - share) / studies)


# -- the simulations decide as the library does ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("design", "arms", "studies"),
    [
        (Design((6,), reserve=0.0), 4, 20),
        (Design((8,)), 1, 20),
        (sequential_design(10), 3, 20),
        (sequential_design(10, rule="t"), 3, 20),
        (sequential_design(20), 3, 2),
    ],
)
def test_simulated_decisions_equal_judge(design, arms, studies):
    truth = np.linspace(0, 2, arms)
    d = noise("normal", studies, design.pairs, arms, seed=9) + truth
    margin = 1.2
    fast, with_margin = decide(d, design, truth, estimate=True), decide(d, design, margin=margin)
    states = set()
    for s in range(studies):
        for arm, (plain, judged) in enumerate(zip(judge(d[s], design), judge(d[s], design, margin), strict=True)):
            assert (fast.differs[s, arm] or len(design.analyses)) == plain.analysis
            assert bool(fast.differs[s, arm]) == (plain.state == "differs")
            assert fast.pairs(design)[s, arm] == plain.pairs
            assert np.clip(fast.estimate[s, arm], plain.low, plain.high) == pytest.approx(plain.estimate, abs=1e-6)
            if not plain.low <= truth[arm] <= plain.high:
                assert fast.missed[s, arm]
            found = with_margin.equivalent[s, arm], with_margin.differs[s, arm]
            number = judged.analysis if judged.state != "open" else 0
            assert found == ((number, 0) if judged.state == "equivalent" else (0, number))
            states.add(judged.state)
    assert len(states) >= 2


def test_simulated_capital_equals_that_of_the_library():
    d = noise("log-normal (σ 1.5)", 5, 12, 2)
    found = capitals(d)
    for s in range(5):
        for arm in range(2):
            assert [capital(d[s, :n, arm]) for n in range(1, 13)] == pytest.approx(found[s, :, arm].tolist())


@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_simulated_looks_equal_compare_all_after_every_pair(effect):
    d = noise("normal", 8, 20, 2, seed=3) + effect
    fast = simulated.false_at_any_pair(d)
    later = simulated.false_with_later_arms(d)
    for s in range(8):
        shown, added = False, False
        for n in range(6, 21):
            arms = {str(k): d[s, :n, k] for k in range(2)}
            shown |= any(v.is_real for v in compare_all(np.zeros(n), arms, design=UNPLANNED).values())
            added |= compare_all(np.zeros(n), {"0": arms["0"]}, design=UNPLANNED)["0"].is_real
            added |= any(v.is_real for v in compare_all(np.zeros(n), arms, design=UNPLANNED, later=["1"]).values())
        assert shown == fast[s]
        assert added == later[s]


def test_simulated_equivalence_equals_compare_all_after_every_pair():
    d = noise("normal", 12, 16, 1, seed=4) * 0.3 + 0.3
    fast = simulated.equivalent_at_any_pair(d, 1.0)
    for s in range(12):
        looks = (compare_all(np.zeros(n), {"a": d[s, :n, 0]}, 1.0, design=UNPLANNED)["a"] for n in range(6, 17))
        assert any(v.verdict == "equivalent" for v in looks) == fast[s]


def test_stored_studies_have_residuals():
    tables = simulated.stored_residuals()
    assert len(tables) >= 10
    for table in tables:
        assert np.abs(table.mean(axis=0)).max() < 1e-9
        assert table.std(axis=0, ddof=1) == pytest.approx(np.ones(table.shape[1]))
    assert noise(RESIDUALS, 2, 7, 8).shape == (2, 7, 8)


# -- false verdicts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arms", [1, 4, 8])
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("name", SMALL)
def test_at_most_one_study_in_twenty_has_a_false_verdict(name, kind, arms):
    found = (decide(noise(kind, STUDIES, DESIGNS[name].pairs, arms), DESIGNS[name]).differs > 0).any(axis=1)
    assert found.mean() <= at_most(0.05, STUDIES)


@pytest.mark.parametrize(("kind", "arms", "studies"), [("normal", 1, 300), ("log-normal (σ 1.5)", 4, 150)])
@pytest.mark.parametrize("name", LARGE)
def test_at_most_one_long_study_in_twenty_has_a_false_verdict(name, kind, arms, studies):
    found = (decide(noise(kind, studies, DESIGNS[name].pairs, arms), DESIGNS[name]).differs > 0).any(axis=1)
    assert found.mean() <= at_most(0.05, studies)


@pytest.mark.parametrize("name", SMALL)
def test_the_error_is_used(name):
    """A rule that never decides would pass the other tests."""
    found = decide(noise("normal", 1000, DESIGNS[name].pairs, 1), DESIGNS[name]).differs > 0
    assert found.mean() >= 0.02


@pytest.mark.parametrize("arms", [1, 4, 8])
@pytest.mark.parametrize("kind", NOISES)
def test_looks_after_every_pair_and_more_seeds_are_safe(kind, arms):
    d = noise(kind, 1000, simulated.LOOKS, arms)
    assert simulated.false_at_any_pair(d).mean() <= at_most(0.05, 1000)
    assert simulated.false_with_more_seeds(d).mean() <= at_most(0.05, 1000)


@pytest.mark.parametrize("arms", [4, 8])
@pytest.mark.parametrize("kind", NOISES)
def test_arms_added_one_at_a_time_are_safe(kind, arms):
    assert simulated.false_with_later_arms(noise(kind, 1000, 20, arms)).mean() <= at_most(0.05, 1000)


# -- coverage and equivalence ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arms", [1, 4, 8])
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("name", ["8 pairs", "6/8/10"])
def test_intervals_of_all_arms_and_analyses_cover_the_truth(name, kind, arms):
    truth = MIXED[arms]
    d = noise(kind, 200, DESIGNS[name].pairs, arms, seed=1) + np.array(truth)
    assert decide(d, DESIGNS[name], truth).missed.any(axis=1).mean() <= at_most(0.05, 200)


def test_intervals_for_unplanned_looks_cover_the_truth():
    d = noise("normal", 60, 25, 1, seed=2)[:, :, 0] + 1.0
    excluded = [
        any(not low <= 1 <= high for low, high in (anytime_interval(one[:n], 0.05) for n in (8, 16, 25))) for one in d
    ]
    assert np.mean(excluded) <= at_most(0.05, 60)
    assert (capitals(d[:, :, None] - 1)[:, -1, 0] >= needed(1, reserve=1.0)).sum() >= sum(excluded)


@pytest.mark.parametrize("margin", [1.0, 3.0])
@pytest.mark.parametrize("arms", [1, 4, 8])
@pytest.mark.parametrize("name", ["8 pairs", "6/8/10"])
def test_a_difference_equal_to_the_margin_is_rarely_equivalent(name, arms, margin):
    design = DESIGNS[name]
    d = noise("normal", STUDIES, design.pairs, arms, seed=5) + margin
    assert (decide(d, design, margin=margin).equivalent > 0).any(axis=1).mean() <= at_most(0.05, STUDIES)


@pytest.mark.parametrize("arms", [1, 8])
def test_looks_after_every_pair_rarely_give_a_false_equivalent(arms):
    d = noise("normal", 500, simulated.LOOKS, arms, seed=6) + 3.0
    assert simulated.equivalent_at_any_pair(d, 3.0).mean() <= at_most(0.05, 500)


# -- the rule t with missing pairs -------------------------------------------------------------------------------------


def test_the_rule_t_keeps_its_error_with_missing_pairs():
    make, design, studies = np.random.default_rng(0), Design((10,), reserve=0.0, rule="t"), 2000
    d = make.normal(size=(studies, 10, 1))
    d[:, :4] = math.nan
    found = np.mean([judge(one, design)[0].state == "differs" for one in d])
    assert 0.02 < found <= at_most(0.05, studies)
