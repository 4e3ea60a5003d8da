"""Designs: which analyses are planned, and how much error each may spend."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtohead.errors import InputError
from headtohead.stats import ALPHA, FIXED_PAIRS, LEAST_PAIRS, MAX_PAIRS, Design, sequential_design
from helpers.verdicts import few

designs = st.builds(
    Design,
    st.sets(st.integers(6, 80), min_size=1, max_size=6).map(lambda points: tuple(sorted(points))),
    reserve=st.sampled_from([0.0, 0.1, 0.5]),
    rule=st.sampled_from(["flips", "t"]),
)


def test_defaults_are_those_of_the_docs():
    assert (ALPHA, LEAST_PAIRS, FIXED_PAIRS, MAX_PAIRS) == (0.05, 6, 8, 20)
    assert Design() == Design((8,), reserve=0.1, rule="flips", alpha=0.05)


@few
@given(designs)
def test_spent_error_rises_to_what_is_planned(design):
    assert len(design.spent) == len(design.analyses)
    assert all(a <= b for a, b in itertools.pairwise(design.spent))
    assert design.spent[0] > 0
    assert design.spent[-1] == pytest.approx(design.planned) == pytest.approx(0.05 * (1 - design.reserve))
    assert design.pairs == max(design.analyses)


@few
@given(designs)
def test_the_first_analysis_can_reject(design):
    if design.rule == "flips":
        assert design.spent[0] >= min(2.0 ** (1 - design.analyses[0]), design.planned) * (1 - 1e-9)


def test_spent_error_by_hand():
    assert Design((6,), reserve=0.0).spent == (0.05,)
    assert Design((6, 8, 10), reserve=0.1).spent == pytest.approx((1 / 32, (1 / 32 + 0.045) / 2, 0.045))
    t = Design((6, 8, 10), reserve=0.1, rule="t").spent
    assert t == pytest.approx((0.045 * 6 / 10, 0.045 * 8 / 10, 0.045)), "its p has no smallest value"
    assert Design((10, 20), reserve=0.0).spent == pytest.approx((0.025, 0.05)), "the share of the pairs is larger"
    assert Design((8, 10), reserve=0.0, alpha=0.2).spent == pytest.approx((0.16, 0.2))


@pytest.mark.parametrize(
    ("most", "points"),
    [
        (6, (6,)),
        (7, (6, 7)),
        (10, (6, 8, 10)),
        (20, (6, 8, 10, 14, 20)),
        (25, (6, 8, 10, 14, 20, 25)),
        (80, (6, 8, 10, 14, 20, 28, 40, 56, 80)),
        (100, (6, 8, 10, 14, 20, 28, 40, 56, 80, 100)),
        (170, (6, 8, 10, 14, 20, 28, 40, 56, 80, 113, 160, 170)),
    ],
)
def test_sequential_designs_have_growing_steps(most, points):
    design = sequential_design(most)
    assert design.analyses == points
    assert (design.reserve, design.rule) == (0.1, "flips")


def test_sequential_design_takes_rule_and_reserve():
    assert sequential_design() == sequential_design(20)
    assert sequential_design(10, rule="t", reserve=0.0) == Design((6, 8, 10), reserve=0.0, rule="t")


@pytest.mark.parametrize("most", [5, 0, -3])
def test_too_few_pairs_are_refused(most):
    with pytest.raises(InputError, match="6"):
        sequential_design(most)


@pytest.mark.parametrize(
    "given",
    [
        {"analyses": ()},
        {"analyses": (8, 8)},
        {"analyses": (8, 6)},
        {"analyses": (1, 6)},
        {"rule": "bayes"},
        {"reserve": 1.0},
        {"reserve": -0.1},
        {"reserve": math.nan},
    ],
)
def test_impossible_designs_are_refused_in_one_line(given):
    with pytest.raises(InputError) as caught:
        Design(**given)
    assert "\n" not in str(caught.value)
