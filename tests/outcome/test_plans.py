"""The sentences about plan, lock and changes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from headtohead.outcome.outcome import load_outcome
from headtohead.outcome.plans import design_text, plan_text
from headtohead.run.studies import AnalysisRecord, StudyRecord, read_study
from headtohead.stats import Design
from headtohead.study.plan import lock_plan
from helpers.stores import stored
from helpers.studies import carried, sequential, shown, study


def seen(pairs: int = 6, **given) -> AnalysisRecord:
    chosen = {"when": "2026-11-18T10:00:00+00:00", "pairs": {"Rope": pairs}, "metric": "test/loss", "margin": None}
    return AnalysisRecord(**chosen | {"verdicts": {"Rope": "unresolved"}, "number": 1} | given)


def record(home: Path, **given) -> StudyRecord:
    made = stored(home, {"Rope": -0.3}, again=False).record
    return dataclasses.replace(made, **{"design": Design((6,)), "history": (seen(),), **given})


def says(home: Path, **given) -> str:
    return plan_text(home / "studies" / "stored", record(home, **given))


def test_the_planned_analyses_are_listed():
    assert design_text(Design((8,))) == "Plan: one analysis, of 8 pairs."
    assert design_text(Design((6, 8, 20))) == "Plan: up to 3 analyses, after 6, 8 and 20 pairs."


def test_an_unchanged_study_states_its_plan_only(home: Path):
    assert says(home) == says(home, history=()) == "Plan: one analysis, of 6 pairs."


def test_added_seeds_are_stated(home: Path):
    assert says(home, seeds=tuple(range(7))).endswith(
        "1 pair was added after the plan had ended; they count through the test for unplanned analyses."
    )
    assert "2 pairs were added after the plan had ended" in says(home, seeds=tuple(range(8)))
    assert "added" not in says(home, seeds=tuple(range(8)), design=Design((6, 8)))


def test_added_arms_are_stated(home: Path):
    one = "Rope was added after verdicts had been shown and was judged by the test for unplanned analyses."
    assert says(home, later=("Rope",)).endswith(one)
    assert "Rope, Alibi were added after verdicts had been shown and were judged" in says(home, later=("Rope", "Alibi"))


@pytest.mark.parametrize(
    ("margins", "now", "text"),
    [
        ([None], 0.02, "The margin was none when verdicts were shown before; it is 0.0200 now."),
        ([0.01], 0.02, "The margin was 0.0100 when verdicts were shown before; it is 0.0200 now."),
        (["1%"], None, "The margin was 1% when verdicts were shown before; it is none now."),
        ([0.01, 0.02], 0.01, "The margin was 0.0200 when verdicts were shown before; it is 0.0100 now."),
        ([0.01, None], 0.02, "The margin was 0.0100 and none when verdicts were shown before; it is 0.0200 now."),
    ],
    ids=str,
)
def test_a_changed_margin_is_stated(home: Path, margins: list, now: object, text: str):
    history = tuple(seen(margin=margin) for margin in margins)
    assert says(home, history=history, margin=now).endswith(text)


def test_an_unchanged_margin_is_not_stated(home: Path):
    assert "margin" not in says(home, history=(seen(margin=0.01), seen(margin=0.01)), margin=0.01)


def test_another_metric_of_the_same_question_is_stated(home: Path, text: Path):
    shown(study(text, seeds=2), home)
    second = shown(study(text, seeds=2, metric="validation/loss"), home)
    assert second.verdicts.plan.endswith("The same question was asked by test/loss before.")
    assert "asked" not in study(text, seeds=2).outcome(home).verdicts.plan
    other = shown(study(text, seeds=2, metric="validation/loss", vary={"model.heads": [1, 2]}, name="other"), home)
    assert "asked" not in other.verdicts.plan
    again = shown(study(text, seeds=2, name="again"), home)
    assert again.record.asked_by == ("validation/loss",)  # by its own metric it is the same study


# -- a real study that is changed after its verdicts -------------------------------------------------------------------


def test_fewer_seeds_hide_no_pairs(home: Path, text: Path):
    made = sequential(text, seeds=8)
    shown(made, home)
    fewer = shown(dataclasses.replace(made, seeds=6), home).verdicts
    assert fewer["null"].verdict.pairs == 8
    assert fewer.plan == "Plan: one analysis, of 8 pairs."
    assert "seeds 0–7" in fewer.scope


def test_more_seeds_and_arms_are_unplanned(home: Path, text: Path):
    made = sequential(text, seeds=6)
    first = shown(dataclasses.replace(made, arms={"null": made.arms["null"]}), home)
    more = shown(dataclasses.replace(made, seeds=7), home)
    assert more.record.design == first.record.design == Design((6,))
    assert more.record.later == ("fast",)
    row = more.verdicts["fast"].verdict
    assert (row.analysis, row.spent) == (0, 0.0)
    assert row.p > 0.05  # six pairs are too few for the test of unplanned analyses
    assert more.verdicts["null"].verdict.analysis == 1
    assert more.verdicts.plan == (
        "Plan: one analysis, of 6 pairs. 1 pair was added after the plan had ended; they count through the test for "
        "unplanned analyses. fast was added after verdicts had been shown and was judged by the test for unplanned "
        "analyses."
    )
    carried(dataclasses.replace(made, seeds=7), home)
    assert read_study(more.folder) == more.record


def test_runs_that_were_never_trained_are_no_pairs(home: Path, text: Path):
    """A study of 20 seeds was stopped before its first run, and is now one of 6."""
    from headtohead.run.executors.execution import Execution
    from headtohead.study.execution import train_study

    made = sequential(text, seeds=20)
    events = train_study(made, Execution(jobs=1, device="cpu"), home=home)
    next(events)
    events.close()
    assert len(made.outcome(home).record.seeds) == 20
    found = shown(dataclasses.replace(made, seeds=6), home)
    assert found.record.seeds == tuple(range(6))
    assert found.verdicts.plan == "Plan: one analysis, of 6 pairs."
    assert not found.verdicts["null"].excluded


# -- locked ------------------------------------------------------------------------------------------------------------


def test_a_locked_study_says_so(home: Path, text: Path):
    made = sequential(text, seeds=6)
    plan, path = lock_plan(made, home=home)
    outcome = shown(made, home)
    assert outcome.verdicts.plan == f"Plan: one analysis, of 6 pairs. As locked ({plan.hash})."
    assert outcome.record.design == Design((6,), reserve=0.0)
    wider = shown(dataclasses.replace(made, margin=0.5), home)
    assert f"Differs from the locked plan {plan.hash}: margin none → 0.5." in wider.verdicts.plan
    text_of_lock = path.read_text()
    path.write_text(text_of_lock.replace('"margin": null', '"margin": 0.5'))
    tampered = load_outcome(outcome.folder).verdicts.plan
    assert "The locked plan cannot be checked" in tampered
    assert "does not match its checksum" in tampered
    path.unlink()
    gone = f"The plan {plan.hash} was locked before the first run, but its file is gone."
    assert gone in load_outcome(outcome.folder).verdicts.plan
    assert gone in shown(made, home).verdicts.plan  # running it again hides nothing
