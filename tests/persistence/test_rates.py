"""Rates: every arm at every rate, where the sign holds, the best rates, and the edge of the grid."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from headtohead import Arm, InputError, Study, run_rates
from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.persistence.rates import at_rates, describe, grid_of
from headtohead.run.executors.execution import Execution
from headtohead.run.store import Record
from headtohead.study.execution import folder_of, train_study
from helpers.studies import study

ONE = Execution(jobs=1, device="cpu")
GRID = (0.0005, 0.001, 0.002)


@pytest.fixture
def positions(text) -> Study:
    return study(text, "train.optimizer.lr=0.001", vary={"model.position": ["Learned", "Rope"]}, seeds=6)


def test_auto_is_a_grid_around_the_controls_rate(positions):
    own = positions.control.train.optimizer.lr
    assert grid_of(positions, "auto") == pytest.approx([own / 4, own / 2, own, 2 * own, 4 * own])
    assert grid_of(positions, [4e-3, 1e-3, 1e-3]) == (1e-3, 4e-3)


@pytest.mark.parametrize("rates", [[1e-3], [1e-3, 1e-3], [0.0, 1e-3], [-1e-3, 1e-3], [1e-3, math.inf]])
def test_odd_grids_are_refused(positions, rates):
    with pytest.raises(InputError, match="two learning rates or more"):
        grid_of(positions, rates)


def test_a_study_of_rates_is_refused():
    with pytest.raises(InputError, match="different learning rates"):
        grid_of(Study("?", Arm(), {"train.optimizer.lr": [1e-3, 2e-3]}), "auto")
    with pytest.raises(InputError, match="different learning rates"):
        grid_of(Study("?", Arm(), {"train.optimizer": ["AdamW", "SGD(lr=0.5)"]}), "auto")
    assert grid_of(Study("?", Arm(), {"train.optimizer": ["AdamW(lr=0.003)", "SGD(lr=0.003)"]}), "auto")


def test_all_arms_are_trained_at_all_rates(positions):
    made = at_rates(positions, (1e-3, 2e-3, 4e-3), 3)
    assert [v.name for v in made.variants] == [
        f"{arm}, lr={rate}" for rate in ("0.001", "0.002", "0.004") for arm in ("Learned", "Rope")
    ]
    assert [v.arm.train.optimizer.lr for v in made.variants] == [1e-3, 1e-3, 2e-3, 2e-3, 4e-3, 4e-3]
    assert made.all_seeds == (0, 1, 2)


def test_runs_at_the_studys_rate_are_the_studys_own(positions):
    own = positions.control.train.optimizer.lr
    arms = {v.arm.id for v in at_rates(positions, grid_of(positions, "auto"), 3).variants}
    assert {v.arm.id for v in positions.variants} <= arms
    assert own in grid_of(positions, "auto")


def with_values(positions: Study, home: Path, values: dict[tuple[str, float], list | None]) -> Outcome:
    """The outcome of a grid with given (test, validation) losses by arm, rate and seed; None: all runs diverged."""
    made = at_rates(positions, GRID, 3)
    list(train_study(made, ONE, home=home))
    outcome = load_outcome(folder_of(made, home))
    for (_, name), rows in outcome.rows.items():
        arm, _, rate = name.partition(", lr=")
        known = values[arm, float(rate)]
        for n, row in enumerate(rows):
            if known is None:
                before = {**row.values, "validation/loss": 0.0}  # a good value does not make it complete
                rows[n] = dataclasses.replace(row, status="diverged", value=math.nan, values=before)
            else:
                test, validation = known[n]
                rows[n] = dataclasses.replace(row, value=test, values={**row.values, "validation/loss": validation})
    return outcome


def test_signs_best_rates_and_edges_by_hand(positions, home):
    """The study's rate is 0.001."""
    values = {
        ("Learned", 0.0005): [(5.0, 5.0), (5.25, 5.0), (5.5, 5.0)],
        ("Learned", 0.001): [(4.0, 4.0), (4.1, 4.0), (4.2, 4.0)],
        ("Learned", 0.002): [(3.0, 4.5), (3.1, 4.5), (3.2, 4.5)],  # best on the test set, which chooses nothing
        ("Rope", 0.0005): [(5.25, 5.0), (5.5, 5.0), (5.0, 5.0)],
        ("Rope", 0.001): [(3.9, 4.1), (4.0, 4.1), (4.15, 4.1)],
        ("Rope", 0.002): [(2.8, 3.0), (3.3, 3.0), (2.9, 3.0)],
    }
    found = describe(positions, GRID, with_values(positions, home, values))
    rope = found["Rope"]
    low, own, high = rope.points
    assert (low.difference, own.difference, high.difference) == pytest.approx((0.0, -0.25 / 3, -0.1), abs=1e-9)
    assert (own.agree, own.pairs, own.lost) == (3, 3, 0)
    assert (high.agree, high.pairs) == (2, 3)
    assert rope.own == 0.001
    assert (rope.control_best, rope.best) == (0.001, 0.002)
    assert rope.difference == pytest.approx((2.8 + 3.3 + 2.9 - 4.0 - 4.1 - 4.2) / 3)
    assert rope.edge == ("Rope",)
    assert found.chosen_by == "validation/loss"
    text = str(found)
    assert "warning: Rope is best at the edge of the grid" in text
    assert "is not a verdict" in " ".join(text.split())
    assert found.to_json()["is_verdict"] is False
    assert (rope.holds, rope.turns) == (2, ()), "a difference of zero has no sign"
    values["Rope", 0.0005] = [(4.8, 5.0), (4.9, 5.0), (4.9, 5.0)]
    assert describe(positions, GRID, with_values(positions, home, values))["Rope"].holds == 3
    values["Rope", 0.0005] = [(5.5, 5.0), (5.5, 5.0), (5.5, 5.0)]
    values["Rope", 0.002] = None
    rope = describe(positions, GRID, with_values(positions, home, values))["Rope"]
    assert (rope.holds, rope.turns) == (1, (0.0005,))
    assert rope.points[2].lost == 3
    assert math.isnan(rope.points[2].difference)
    assert rope.best == 0.001, "a rate that lost runs is not chosen"


def test_rates_from_runs_to_text(positions, home, capsys):
    found = run_rates(positions, GRID, ONE, seeds=2, home=home)
    assert len(list((home / "runs").iterdir())) == 2 * 3 * 2
    assert "forecast: " in capsys.readouterr().err
    rope = found["Rope"]
    outcome = load_outcome(Path(found.folder))
    for point in rope.points:
        by_seed = [
            [
                Record.at(home, row.run).result.values["test/loss"]
                for row in outcome.rows["", f"{arm}, lr={point.rate:g}"]
            ]
            for arm in ("Learned", "Rope")
        ]
        assert point.control == pytest.approx(sum(by_seed[0]) / 2)
        assert point.difference == pytest.approx(sum(by_seed[1]) / 2 - sum(by_seed[0]) / 2)
    assert max(map(len, found.lines())) <= 80
    assert f"holds at {rope.holds} of 3 rates" in str(found)
    assert str(run_rates(positions, GRID, ONE, seeds=2, home=home, progress=False)) == str(found)
