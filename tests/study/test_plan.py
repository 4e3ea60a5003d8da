"""Plans: pilot pairs are complete and count, earlier studies are used and named, ranges contain the point; locking."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from headtohead import InputError
from headtohead.run import store
from headtohead.run.events import Started
from headtohead.run.locks import read_lock
from headtohead.stats import Design
from headtohead.study.execution import folder_of
from headtohead.study.plan import PILOT_PAIRS, Noise, StudyPlan, compare_with_plan, lock_plan, plan_study
from headtohead.study.study import Study
from helpers.runs import events_of
from helpers.studies import carried, sequential, shown

PLAN = StudyPlan(
    study="tiny",
    effect=0.1,
    control_mean=3.0,
    metric="test/loss",
    arms=1,
    sd=0.1,
    sd_low=0.08,
    sd_high=0.15,
    sd_from="4 complete pairs (pilot)",
    pairs=12,
    pairs_low=9,
    pairs_high=22,
    pairs_for_equivalence=20,
    analyses=(6, 8),
    run_seconds=30.0,
    jobs=2,
    runs_a_pair=2,
    runs_before=4,
)


def null(text: Path, **given) -> Study:
    base = sequential(text)
    return sequential(text, **{"vary": ["train.order"], "arms": {"null": base.arms["null"]}, **given})


def sd_by_hand(home: Path, made: Study) -> float:
    frame = made.outcome(home).results().pivot(index="seed", columns="arm", values="test/loss")
    return float((frame["null"] - frame[made.variants[0].name]).std(ddof=1))


# -- the pilot ---------------------------------------------------------------------------------------------------------


def test_pilot_pairs_are_complete_and_count(text: Path, home: Path):
    made, events = null(text), []
    plan = plan_study(made, "1%", jobs=1, home=home, listen=events.append)
    assert len(events_of(Started, events)) == 2 * PILOT_PAIRS == 8
    assert all(store.Record.at(home, event.id).require_result().steps == 2 for event in events_of(Started, events))
    assert not (folder_of(made, home) / "study.json").exists()  # no verdict was shown
    assert f"{PILOT_PAIRS} complete pairs (pilot)" in plan.sd_from
    later = carried(made, home)
    assert len(events_of(Started, later)) == 16 - 8
    assert plan.control_mean == pytest.approx(
        np.mean([row.value for row in made.outcome(home).rows["", made.variants[0].name][:PILOT_PAIRS]])
    )
    again, trained = plan_study(made, "1%", jobs=1, home=home, listen=events.append), events_of(Started, events)
    assert len(trained) == 8  # the study itself has eight pairs now
    assert again.sd == pytest.approx(sd_by_hand(home, made))
    assert again.sd_from == "8 complete pairs (study sequential)"


def test_the_range_contains_the_point(text: Path, home: Path):
    carried(made := null(text), home)
    sd = sd_by_hand(home, made)
    for size in (0.7, 1.0, 2.0):
        plan = plan_study(made, size * sd, jobs=1, home=home)
        assert plan.sd_low < plan.sd < plan.sd_high
        assert plan.pairs_low is not None
        assert plan.pairs is not None
        assert 6 <= plan.pairs_low <= plan.pairs <= (plan.pairs_high or math.inf)
        said = plan.to_json()
        assert said["minutes_low"] <= said["minutes"] <= (said["minutes_high"] or math.inf)
    read = json.loads((folder_of(made, home) / "plan.json").read_text())
    assert StudyPlan.from_json(read).pairs == plan.pairs


def test_the_limits_of_the_noise_hold_it_four_times_in_five():
    """Brute force: the interval of sd covers the true value in 80 % of samples."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(2000):
        noise = Noise(float(rng.normal(size=5).std(ddof=1)), 4, "")
        hits += noise.limit(0.1) < 1 < noise.limit(0.9)
    assert hits / 2000 == pytest.approx(0.8, abs=0.03)
    assert Noise(2.0, 0, "").limit(0.9) == 2.0


def test_noise_of_an_earlier_study_is_used_and_named(text: Path, home: Path):
    earlier = null(text, name="earlier")
    carried(earlier, home)
    events: list = []
    base = sequential(text)
    other = sequential(text, vary=["train.optimizer.lr"], arms={"fast": base.arms["fast"]}, name="new")
    plan = plan_study(other, "1%", jobs=1, home=home, listen=events.append)
    assert not events_of(Started, events)
    assert plan.sd_from == "8 complete pairs (study earlier)"
    assert plan.sd == pytest.approx(sd_by_hand(home, earlier))
    otherwise = dataclasses.replace(other, metric="validation/loss", name="metric")
    assert "earlier" not in plan_study(otherwise, "1%", jobs=1, home=home, listen=events.append).sd_from


def test_a_lone_control_and_an_odd_effect_are_refused(text: Path, home: Path):
    with pytest.raises(InputError, match="compares nothing"):
        plan_study(sequential(text, arms={}, vary=()), "1%", home=home)
    for effect in ("0", "-1%", "nan", "much"):
        with pytest.raises(InputError):
            plan_study(null(text), effect, home=home)
    assert not (home / "runs").exists()


def test_the_plan_is_written_in_lines():
    first, second, third, fourth, fifth = PLAN.lines()
    assert first.endswith("sd 0.1000 of test/loss (likely 0.0800 to 0.1500), from 4 complete pairs (pilot)")
    assert "2 runs a pair, 4 runs for tuning and noise floors" in second
    assert third == "to detect an effect of 0.1000 with 80 % power: 12 pairs, likely 9 to 22; 6 min to 12 min"
    assert fourth.endswith("after 6, 8 pairs and stops as soon as an arm is decided; 8 pairs may not be enough")
    assert fifth == "to call equal arms equivalent within 0.1000: 20 pairs"
    assert PLAN.minutes(12) == (4 + 24) * 30 / 2 / 60
    assert "more than 10,000" in dataclasses.replace(PLAN, pairs=None, pairs_low=None).lines()[2]
    assert "likely 9 to more than" in dataclasses.replace(PLAN, pairs_high=None).lines()[2]


def test_the_forecast_is_compared_with_what_happened(text: Path, home: Path):
    made = null(text)
    plan_study(made, "1%", jobs=1, home=home)
    outcome = shown(made, home)
    time, noise = compare_with_plan(outcome.folder, 1.0, 8)
    assert "for 8 runs, took 60 s" in time
    assert noise.startswith("forecast noise sd ")
    for damaged in ("", "[]", "{}", '{"sd": "x"}'):
        (outcome.folder / "plan.json").write_text(damaged)
        (line,) = compare_with_plan(outcome.folder, 1.0, 8)
        assert "cannot be read" in line


# -- locking -----------------------------------------------------------------------------------------------------------


def test_a_lock_holds_everything_that_decides(text: Path, home: Path):
    made = sequential(text, margin="1%", tune={"train.batch": [2, 4]})
    plan, path = lock_plan(made, home=home)
    assert path == folder_of(made, home) / "locked.json"
    assert read_lock(path.parent) == plan
    assert (plan.question, plan.metric, plan.margin) == ("Does it matter?", "test/loss", "1%")
    assert set(plan.arms) == {"fast", "null"}
    assert plan.analyses == [6, 8]
    assert plan.seeds == list(range(8))
    assert plan.tuning == {"grid": {"train.batch": ["2", "4"]}, "seeds": 3}
    assert plan.data["content"]
    assert not (home / "runs").exists()


def test_a_plan_is_not_locked_after_its_verdicts(text: Path, home: Path):
    made = null(text, seeds=6)
    carried(made, home)
    lock_plan(made, home=home)  # trained, but nothing was shown
    shown(made, home)
    with pytest.raises(InputError, match="verdicts of study sequential were shown already"):
        lock_plan(made, home=home)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "As locked"),
        ({"margin": 0.5}, "margin none → 0.5"),
        ({"metric": "validation/loss"}, "metric test/loss → validation/loss"),
        ({"question": "Why?"}, "question Does it matter? → Why?"),
        ({"seeds": range(1, 7)}, "seeds [0, 1, 2, 3, 4, 5] → [1, 2, 3, 4, 5, 6]"),
        ({"seeds": 7}, "analyses [6] → [7]; seeds [0, 1, 2, 3, 4, 5] → 0 to 6"),
        ({"rule": "t"}, "test flips → t"),
        ({"arms": "fast"}, "arm fast added; arm null left out"),
    ],
    ids=str,
)
def test_what_differs_from_the_locked_plan_is_named(text: Path, home: Path, given: dict, says: str):
    made = null(text, seeds=6, vary=["train.order", "train.optimizer.lr"])
    plan, _ = lock_plan(made, home=home)
    if "arms" in given:
        given = {"arms": {"fast": sequential(text).arms["fast"]}}
    outcome = shown(dataclasses.replace(made, **given), home)
    assert says in outcome.verdicts.plan
    assert plan.hash in outcome.verdicts.plan
    assert outcome.record.planned.reserve == 0.0


def test_other_data_than_locked_is_named(text: Path, home: Path):
    made = null(text, seeds=6)
    lock_plan(made, home=home)
    text.write_text(text.read_text().replace("people", "nation"))
    assert "data and its split changed" in shown(made, home).verdicts.plan


def test_a_changed_lock_stops_the_study_in_one_line(text: Path, home: Path):
    made = null(text, seeds=6)
    _, path = lock_plan(made, home=home)
    path.write_text(path.read_text().replace('"margin": null', '"margin": 0.5'))
    with pytest.raises(InputError, match="does not match its checksum") as error:
        shown(made, home)
    assert "\n" not in str(error.value)
    assert not (home / "runs").exists()


def test_a_locked_study_keeps_no_reserve(text: Path, home: Path):
    made = null(text, seeds=6)
    assert shown(made, home / "free").record.design == Design((6,), reserve=0.1)
    lock_plan(made, home=home)
    outcome = shown(made, home)
    assert outcome.record.design == Design((6,), reserve=0.0)
    assert outcome.verdicts["null"].verdict.spent == pytest.approx(0.05)


# -- from Python -------------------------------------------------------------------------------------------------------


def test_a_study_plans_and_locks_itself(text: Path, home: Path):
    """`study.plan` and `study.lock` do what `h2h plan` and `h2h plan --lock` do."""
    made = null(text)
    locked = made.lock(home)
    assert locked == read_lock(folder_of(made, home)) == lock_plan(made, home=home)[0]
    assert made.plan("5%", jobs=1, home=home) == plan_study(made, "5%", jobs=1, home=home)
