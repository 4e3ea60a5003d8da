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
from headtohead.study.layout import layout_of
from headtohead.study.plan import PILOT_PAIRS, ArmPlan, StudyPlan, compare_with_plan, lock_plan, plan_study
from headtohead.study.study import Study
from helpers.runs import events_of
from helpers.studies import carried, sequential, shown

ARM = ArmPlan(0.1, 0.08, 0.15, "6 complete pairs (pilot)", 12, 9, 22)
PLAN = StudyPlan(
    study="tiny",
    effect=0.1,
    control_mean=3.0,
    metric="test/loss",
    arms={"fast": ARM},
    pairs_for_equivalence=20,
    analyses=(6, 8),
    run_seconds=30.0,
    jobs=2,
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
    plan = plan_study(made, "5%", jobs=1, home=home, listen=events.append)
    assert len(events_of(Started, events)) == 2 * PILOT_PAIRS == 12
    assert all(store.Record.at(home, event.id).require_result().steps == 2 for event in events_of(Started, events))
    assert not (folder_of(made, home) / "study.json").exists()  # no verdict was shown
    assert plan.arms["null"].sd_from == f"{PILOT_PAIRS} complete pairs (pilot)"
    later = carried(made, home)
    assert len(events_of(Started, later)) == 16 - 12
    assert plan.control_mean == pytest.approx(
        np.mean([row.value for row in made.outcome(home).rows["", made.variants[0].name][:PILOT_PAIRS]])
    )
    again, trained = plan_study(made, "5%", jobs=1, home=home, listen=events.append), events_of(Started, events)
    assert len(trained) == 12  # the study itself has eight pairs now
    assert again.of_noisiest.sd == pytest.approx(sd_by_hand(home, made))
    assert again.of_noisiest.sd_from == "8 complete pairs (study sequential)"


def test_a_pilot_goes_on_to_half_of_the_pairs_it_forecasts(text: Path, home: Path):
    made = null(text, max_pairs=20)
    first = plan_study(made, "50%", jobs=1, home=home)
    assert first.pairs == 6
    events: list = []
    small = first.of_noisiest.sd * 0.7
    plan = plan_study(made, small, jobs=1, home=home, listen=events.append)
    trained = int(plan.of_noisiest.sd_from.split()[0])
    assert plan.pairs is not None
    assert len(events_of(Started, events)) == 2 * (trained - PILOT_PAIRS) > 0  # the first six are there already
    assert plan.of_noisiest.is_narrow or trained >= plan.pairs / 2


def test_pairs_after_an_arm_is_decided_count(text: Path, home: Path):
    base = sequential(text)
    made = sequential(text, vary=["train.optimizer.lr"], arms={"fast": base.arms["fast"]}, max_pairs=12)
    first = plan_study(made, "50%", jobs=1, home=home)
    plan = plan_study(made, first.of_noisiest.sd / 2, jobs=1, home=home)
    assert carried(made, home)
    assert made.outcome(home).verdicts["fast"].verdict.pairs == 6  # decided at the first analysis
    assert plan.of_noisiest.sd_from == "12 complete pairs (pilot)"


def test_a_pilot_never_trains_pairs_that_the_study_does_not_have(text: Path, home: Path):
    made, events = null(text, max_pairs=7), []
    sd = plan_study(made, "50%", jobs=1, home=home).of_noisiest.sd
    plan = plan_study(made, sd / 20, jobs=1, home=home, listen=events.append)
    assert len(events_of(Started, events)) == 2
    assert plan.of_noisiest.sd_from.startswith("7 complete pairs")


def test_every_arm_has_its_own_forecast(text: Path, home: Path):
    made = sequential(text)
    plan = plan_study(made, "5%", jobs=1, home=home)
    assert list(plan.arms) == [variant.name for variant in made.variants[1:]]
    assert plan.pairs == max(arm.pairs or math.inf for arm in plan.arms.values())
    assert all("1 other arm" in arm.sd_from for arm in plan.arms.values())
    assert any(line.startswith("by arm: ") for line in plan.lines())
    assert StudyPlan.from_json(json.loads((folder_of(made, home) / "plan.json").read_text())) == plan


def test_the_range_contains_the_point(text: Path, home: Path):
    carried(made := null(text), home)
    sd = sd_by_hand(home, made)
    for size in (0.7, 1.0, 2.0):
        plan = plan_study(made, size * sd, jobs=1, home=home)
        arm = plan.of_noisiest
        assert arm.sd_low < arm.sd < arm.sd_high
        assert arm.pairs_low is not None
        assert arm.pairs is not None
        assert 6 <= arm.pairs_low <= arm.pairs <= (arm.pairs_high or math.inf)
        said = plan.to_json()
        assert said["minutes_low"] <= said["minutes"] <= (said["minutes_high"] or math.inf)
    read = json.loads((folder_of(made, home) / "plan.json").read_text())
    assert StudyPlan.from_json(read).pairs == plan.pairs


def test_noise_of_an_earlier_study_is_used_and_named(text: Path, home: Path):
    earlier = null(text, name="earlier")
    carried(earlier, home)
    base = sequential(text)
    other = sequential(text, vary=["train.optimizer.lr"], arms={"fast": base.arms["fast"]}, name="new")
    plan = plan_study(other, "50%", jobs=1, home=home)
    assert plan.of_noisiest.sd_from == "6 complete pairs (pilot) and study earlier"
    pilot = other_sd(home, other)
    low, high = sorted((pilot, sd_by_hand(home, earlier)))
    assert low < plan.of_noisiest.sd < high
    otherwise = dataclasses.replace(other, metric="validation/loss", name="metric")
    assert "earlier" not in plan_study(otherwise, "5%", jobs=1, home=home).of_noisiest.sd_from


def other_sd(home: Path, made: Study) -> float:
    """The sd of the first six pairs, from the runs themselves."""
    values = [
        [store.Record.at(home, run.id).require_result().values["test/loss"] for run in list(arm.runs.values())[:6]]
        for arm in layout_of(made, {}, "cpu", 1).tables[0][1]
    ]
    return float(np.std(np.subtract(values[1], values[0]), ddof=1))


def test_a_lone_control_and_an_odd_effect_are_refused(text: Path, home: Path):
    with pytest.raises(InputError, match="compares nothing"):
        plan_study(sequential(text, arms={}, vary=()), "1%", home=home)
    for effect in ("0", "-1%", "nan", "much"):
        with pytest.raises(InputError):
            plan_study(null(text), effect, home=home)
    assert not (home / "runs").exists()


def test_the_plan_is_written_in_lines():
    first, second, third, fourth, fifth = PLAN.lines()
    assert first.endswith("sd 0.1000 of test/loss (likely 0.0800 to 0.1500); from 6 complete pairs (pilot)")
    assert second == "time: 30 s a run, 2 at a time, 4 runs for tuning and noise floors"
    assert third == "to detect an effect of 0.1000 with 80 % power: 12 pairs, likely 9 to 22; 6 min to 12 min"
    assert fourth.endswith("after 6, 8 pairs and stops as soon as an arm is decided; 8 pairs may not be enough")
    assert fifth == "to call equal arms equivalent within 0.1000: 20 pairs"
    assert PLAN.minutes() == (4 + 24) * 30 / 2 / 60

    def third_line(**changed) -> str:
        return dataclasses.replace(PLAN, arms={"fast": dataclasses.replace(ARM, **changed)}).lines()[2]

    assert third_line(pairs=None, pairs_low=None).endswith("more than 10,000 pairs; ask for a larger effect")
    assert third_line(pairs_high=None).endswith("12 pairs, likely 9 to more than 10,000; 6 min or more")
    assert third_line(pairs=6, pairs_low=6, pairs_high=6).endswith("power: 6 pairs; 4 min")


def test_arms_that_need_fewer_pairs_are_trained_for_fewer():
    two = dataclasses.replace(PLAN, arms={"fast": ARM, "calm": dataclasses.replace(ARM, sd=0.05, pairs=6)})
    assert two.noisiest == "fast"
    assert two.minutes() == (4 + 12 + 12 + 6) * 30 / 2 / 60
    assert dataclasses.replace(two, floors=1, tables=2).minutes() == (4 + 2 * 12 + 2 * 18) * 30 / 2 / 60
    assert "by arm: fast 12 pairs, likely 9 to 22; calm 6 pairs, likely 9 to 22" in two.lines()


def test_the_forecast_is_compared_with_what_happened(text: Path, home: Path):
    made = null(text)
    plan_study(made, "5%", jobs=1, home=home)
    outcome = shown(made, home)
    time, noise = compare_with_plan(outcome.folder, 1.0, 8)
    assert "for 8 runs, took 60 s" in time
    assert noise.startswith("forecast noise sd ")
    for damaged in ("", "[]", "{}", '{"arms": {}}', '{"arms": 3}'):
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
