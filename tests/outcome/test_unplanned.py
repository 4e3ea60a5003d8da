"""The cost of an analysis is known before it is made, and it is recorded as `h2h report` does."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from headtohead.outcome.outcome import load_outcome
from headtohead.outcome.unplanned import analyse_now, analysis_cost, least_pairs
from headtohead.run.studies import read_study, write_study
from headtohead.stats import Design
from headtohead.stats.anytime import anytime_p
from helpers.stores import stored


@pytest.mark.parametrize("error", [0.005 / 2, 0.005 / 4, 0.005 / 16, 1e-9])
def test_the_least_number_of_pairs_is_that_of_the_test(error: float):
    import numpy as np

    least = least_pairs(error)
    assert least is not None
    assert anytime_p(np.ones(least)) <= error
    assert anytime_p(np.ones(least - 1)) > error or least == 6


def test_a_plan_without_reserve_has_no_unplanned_verdicts():
    assert least_pairs(0.0) is None


def test_a_planned_analysis_costs_nothing_and_is_recorded_once(home: Path):
    stored(home)
    folder = home / "studies" / "stored"
    cost = analysis_cost(load_outcome(folder))
    assert read_study(folder).history == ()
    assert cost.pairs
    done = analyse_now(load_outcome(folder))
    assert done == cost
    analyse_now(load_outcome(folder))
    (shown,) = read_study(folder).history
    assert shown.number == cost.number


def test_an_analysis_between_two_planned_ones_uses_the_reserve(home: Path):
    stored(home)
    folder = home / "studies" / "stored"
    record = read_study(folder)
    pairs = len(record.seeds)
    write_study(folder, dataclasses.replace(record, design=Design((pairs + 1, pairs + 3)), history=()))
    cost = analysis_cost(load_outcome(folder))
    assert (cost.number, cost.next_pairs) == (0, pairs + 1)
    assert (round(cost.reserve, 9), round(cost.planned_error, 9)) == (0.005, 0.045)
    assert cost.says[0].startswith("This analysis is not planned")
    assert "0.5 %" in cost.says[1]
    analyse_now(load_outcome(folder))
    assert [shown.number for shown in read_study(folder).history] == [0]
    assert "fixed already" in analysis_cost(load_outcome(folder)).says[-1]
