"""Locked plans: what is written and hashed, every difference is named, and a changed file is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from headtohead import InputError
from headtohead.run.locks import EXCLUSIONS, NAMES, LockedPlan, as_run, read_lock, write_lock
from headtohead.run.studies import StudyRecord
from headtohead.stats import Design
from helpers.stores import stored

PLAN = LockedPlan(
    question="Does it matter?",
    metric="test/loss",
    margin=0.01,
    control={"kind": "Arm", "width": 8},
    arms={"Rope": {"position": "Rope"}, "Alibi": {"position": "Alibi"}},
    analyses=[6, 8],
    rule="flips",
    alpha=0.05,
    seeds=list(range(8)),
    tuning={},
    exclusions=EXCLUSIONS,
    data={"spec": {"corpus": "sotu"}, "content": "abc"},
)
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "question": ({"question": "Why?"}, "question Does it matter? → Why?"),
    "metric": ({"metric": "test/perplexity"}, "metric test/loss → test/perplexity"),
    "margin": ({"margin": None}, "margin 0.01 → none"),
    "control": ({"control": {"kind": "Arm", "width": 16}}, "control changed"),
    "arm added": ({"arms": PLAN.arms | {"None": {}}}, "arm None added"),
    "arm left out": ({"arms": {"Rope": PLAN.arms["Rope"]}}, "arm Alibi left out"),
    "arm changed": ({"arms": PLAN.arms | {"Rope": {"position": "Rope2"}}}, "arm Rope changed"),
    "analyses": ({"analyses": [6, 8, 10]}, "analyses [6, 8] → [6, 8, 10]"),
    "rule": ({"rule": "t"}, "test flips → t"),
    "seeds": ({"seeds": list(range(10))}, "seeds 0 to 7 → 0 to 9"),
    "tuning": ({"tuning": {"grid": {}}}, "tuning grid {} → {'grid': {}}"),
    "exclusions": ({"exclusions": "none"}, f"rule for lost runs {EXCLUSIONS} → none"),
    "data": ({"data": {"spec": {"corpus": "sotu"}, "content": "abd"}}, "data and its split changed"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_lock(tmp_path, PLAN, "2026-11-18T10:00:00+00:00")
    return tmp_path


@pytest.mark.parametrize("what", CHANGES)
def test_every_change_is_named_and_changes_the_hash(what: str):
    given, text = CHANGES[what]
    other = dataclasses.replace(PLAN, **given)
    assert PLAN.differences(other) == [text]
    assert PLAN.hash != other.hash
    assert PLAN.differences(PLAN) == []


def test_every_field_but_the_level_has_a_name():
    assert set(NAMES) == {field.name for field in dataclasses.fields(LockedPlan)} - {"alpha"}


def test_the_plan_is_read_as_it_was_written(folder: Path):
    assert read_lock(folder) == PLAN
    assert read_lock(folder / "elsewhere") is None
    assert json.loads((folder / "locked.json").read_text())["hash"] == PLAN.hash


def test_the_hash_does_not_depend_on_the_order_of_keys():
    turned = dataclasses.replace(PLAN, arms=dict(reversed(PLAN.arms.items())))
    assert turned.hash == PLAN.hash
    assert PLAN.differences(turned) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "null",
        "{}",
        '{"hash": "x"}',
        '{"plan": {}, "hash": "x"}',
        '{"plan": [], "hash": 5}',
        '{"plan": null, "hash": null}',
        "\x00",
    ],
)
def test_a_damaged_file_is_refused_in_one_line(folder: Path, text: str):
    (folder / "locked.json").write_text(text)
    with pytest.raises(InputError, match=r"locked\.json.*restore it, or work without a locked plan") as error:
        read_lock(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("field", "value"), [("margin", 0.02), ("seeds", "all"), ("analyses", 6), ("arms", [])])
def test_a_changed_file_is_refused(folder: Path, field: str, value: object):
    data = json.loads((folder / "locked.json").read_text())
    data["plan"][field] = value
    (folder / "locked.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"locked\.json does not match its checksum"):
        read_lock(folder)
    del data["checksum"]  # as older versions wrote it
    (folder / "locked.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match="was changed after it was locked: restore it, or delete it"):
        read_lock(folder)


# -- as run ------------------------------------------------------------------------------------------------------------


def planned(record: StudyRecord) -> LockedPlan:
    """A plan that the record keeps."""
    first = record.tables[0]
    return dataclasses.replace(
        PLAN,
        margin=record.margin,
        control=first.control.spec,
        arms={arm.name: arm.spec for arm in first.arms[1:]},
        analyses=list(record.planned.analyses),
        seeds=list(record.seeds),
        data={"spec": {}, "content": ""},
    )


def test_a_study_as_planned_has_no_differences(home: Path):
    record = stored(home, seeds=8, design={"analyses": [8], "reserve": 0.0, "rule": "flips", "alpha": 0.05}).record
    plan = planned(record)
    assert plan.differences(as_run(record, plan)) == []
    longer = dataclasses.replace(plan, seeds=list(range(20)))
    assert longer.differences(as_run(record, longer)) == []  # decided early: the first of its seeds


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"margin": 0.02}, "margin none → 0.02"),
        ({"metric": "test/perplexity"}, "metric test/loss → test/perplexity"),
        ({"question": "Why?"}, "question Does it matter? → Why?"),
        ({"design": Design((6, 8))}, "analyses [8] → [6, 8]"),
        ({"design": Design((8,), rule="t")}, "test flips → t"),
        ({"seeds": tuple(range(9))}, "seeds 0 to 7 → 0 to 8"),
        ({"seeds": tuple(range(1, 9))}, "seeds 0 to 7 → 1 to 8"),
        ({"seeds": (1, 0)}, "seeds 0 to 7 → [1, 0]"),
        ({"made_on": {"content": "other"}}, "data and its split changed"),
    ],
    ids=str,
)
def test_what_was_run_differently_is_named(home: Path, given: dict[str, Any], says: str):
    record = stored(home, seeds=8, design={"analyses": [8], "reserve": 0.0, "rule": "flips", "alpha": 0.05}).record
    plan = planned(record)
    assert plan.differences(as_run(dataclasses.replace(record, **given), plan)) == [says]


def test_arms_that_were_run_differently_are_named(home: Path):
    record = stored(home, seeds=8).record
    plan, table = planned(record), record.tables[0]
    control, rope, alibi = table.arms

    def found(*arms) -> list[str]:
        tables = (dataclasses.replace(table, arms=(control, *arms)),)
        return plan.differences(as_run(dataclasses.replace(record, tables=tables), plan))

    assert found(rope, alibi) == []
    assert found(rope) == ["arm Alibi left out"]
    assert found(rope, dataclasses.replace(alibi, dropped=True)) == ["arm Alibi left out"]
    assert found(rope, alibi, dataclasses.replace(alibi, name="more")) == ["arm more added"]
    assert found(dataclasses.replace(rope, spec={}), alibi) == ["arm Rope changed"]
