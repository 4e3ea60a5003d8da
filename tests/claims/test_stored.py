"""Results kept in one file give the same verdicts as the store they came from."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from headtohead.claims import entropy
from headtohead.claims import stored as kept
from headtohead.claims.evidence import measures_of
from headtohead.claims.run import measured
from headtohead.disk.checksums import with_checksum
from headtohead.errors import InputError
from headtohead.run.store import Record
from helpers.studies import study


def test_stored_results_give_the_same_verdicts(outcome, tmp_path):
    for _ in measured(outcome, "tiny", entropy):
        pass
    file = tmp_path / "kept" / "tiny.json"
    kept.write(outcome, file)
    back = kept.unpacked(file, tmp_path / "room")
    ours, theirs = outcome.to_json()["tables"][0], back.to_json()["tables"][0]
    for arm, kept_arm in zip(ours["arms"], theirs["arms"], strict=True):
        for test in ("items", "crossed"):  # kept in single precision
            values, kept_values = arm.pop(test), kept_arm.pop(test)
            assert values["low"] is not None
            assert kept_values.keys() == values.keys()
            for name, value in values.items():
                assert kept_values[name] == (value if value is None else pytest.approx(value, rel=1e-5, abs=1e-8))
    assert theirs == ours
    run = outcome.all_rows[0].run
    record = Record(tmp_path / "room" / "runs" / run)
    assert record.result == Record(outcome.home / "runs" / run).result
    assert measures_of(record) == measures_of(Record(outcome.home / "runs" / run))
    assert [look["step"] for look in record.metrics] == [0, 3, 6]
    assert kept.differences(kept.read(file), kept.read(file)) == (0, 24)


def test_warnings_of_each_run_are_kept_and_data_once(outcome, tmp_path):
    """The figures of a warning differ between seeds, the data do not."""
    runs = [row.run for row in outcome.all_rows]
    for number, run in enumerate(runs):
        path = outcome.home / "runs" / run / "result.json"
        changed = {**json.loads(path.read_text()), "warnings": [f"{number} × as large"]}
        path.write_text(json.dumps(with_checksum(changed)))
    file = tmp_path / "tiny.json"
    kept.write(outcome, file)
    assert len(kept.read(file).data) == 1
    kept.unpacked(file, tmp_path / "room")
    found = [Record(tmp_path / "room" / "runs" / run).result.warnings for run in runs]
    assert found == [[f"{number} × as large"] for number in range(len(runs))]


def test_warnings_kept_with_the_data_are_still_read(outcome, tmp_path):
    """Files of an earlier version have them there."""
    file = tmp_path / "tiny.json"
    kept.write(outcome, file)
    said = json.loads(file.read_text())
    said["data"][0]["warnings"] = ["as before"]
    for run in said["runs"].values():
        del run["result"]["warnings"]
    file.write_text(json.dumps(said))
    kept.unpacked(file, tmp_path / "room")
    assert Record(tmp_path / "room" / "runs" / outcome.all_rows[0].run).result.warnings == ["as before"]


def test_results_kept_without_items_are_still_read(outcome, tmp_path):
    """Files of an earlier version have none."""
    file = tmp_path / "tiny.json"
    kept.write(outcome, file)
    said = json.loads(file.read_text())
    for run in said["runs"].values():
        assert run.pop("items")
    file.write_text(json.dumps(said))
    back = kept.unpacked(file, tmp_path / "room")
    rows = back.verdicts.arms
    assert [(row.items, row.crossed) for row in rows] == [(None, None)] * len(rows)
    assert [row.verdict for row in rows] == [row.verdict for row in outcome.verdicts.arms]
    assert back.verdicts.notes == outcome.verdicts.notes
    kept.write(back, tmp_path / "again.json")
    assert not any(run.items for run in kept.read(tmp_path / "again.json").runs.values())


def test_kept_items_are_few_and_can_be_kept_again(outcome, tmp_path):
    file, again = tmp_path / "tiny.json", tmp_path / "again" / "tiny.json"
    kept.write(outcome, file)
    for run in json.loads(file.read_text())["runs"].values():
        assert run["items"].keys() == {"validation", "test"}
        assert all(len(one["losses"]) == len(one["weights"]) <= 60 for one in run["items"].values())
    kept.write(kept.unpacked(file, tmp_path / "room"), again)
    assert kept.read(again).runs == kept.read(file).runs


def test_a_changed_bit_is_noticed(outcome, tmp_path):
    file = tmp_path / "tiny.json"
    kept.write(outcome, file)
    stored = kept.read(file)
    next(iter(stored.runs.values())).result["values"]["validation/loss"] += 1e-15
    assert kept.differences(kept.read(file), stored) == (1, 24)


def test_measures_are_computed_once(outcome):
    calls = []

    def measure(record):
        calls.append(record.id)
        return {"here/value": 1.0}

    for _ in range(2):
        assert list(measured(outcome, "tiny", measure))[-1] == 1.0
    assert len(calls) == len(set(calls)) == 24
    assert list(measured(outcome, "other", lambda _: {"there/value": 2.0}))
    found = measures_of(Record(outcome.home / "runs" / calls[0]))
    assert found == {"here/value": 1.0, "there/value": 2.0}


def test_measures_are_recomputed_after_a_code_change(outcome):
    (first, *_) = [row.run for row in outcome.all_rows]
    for number in (1.0, 2.0):  # the same source, another number within
        list(measured(outcome, "tiny", (lambda n: lambda _: {"here/value": n})(number)))
        assert measures_of(Record(outcome.home / "runs" / first)) == {"here/value": number}


def test_a_damaged_file_is_reported(tmp_path):
    file = tmp_path / "x.json"
    file.write_text('{"format": 1, "stu')
    with pytest.raises(InputError, match="it is corrupt"):
        kept.read(file)
    file.write_text(json.dumps({"format": 99}))
    with pytest.raises(InputError, match="newer version"):
        kept.read(file)


def _set(said, *path_and_value):
    *path, last, value = path_and_value
    for key in path:
        said = said[key]
    said[last] = value


@pytest.mark.parametrize(
    "damage",
    [
        lambda said, _: said.pop("study"),
        lambda said, _: said["study"].pop("tables"),
        lambda said, run: said["runs"].pop(run),
        lambda said, run: said["runs"][run].pop("result"),
        lambda said, run: said["runs"][run].pop("times"),
        lambda said, run: _set(said, "runs", run, "result", "values", "validation/loss", "4.2"),
        lambda said, run: _set(said, "runs", run, "items", {"test": {"losses": ["a"]}}),
        lambda said, run: _set(said, "runs", run, "items", [1]),
        lambda said, run: _set(said, "runs", run, "data", 7),
        lambda said, _: _set(said, "runs", []),
        lambda said, run: _set(said, "runs", "f" * 16, said["runs"][run]),
    ],
)
def test_damaged_results_give_no_verdict(damage, outcome, tmp_path):
    file = tmp_path / "tiny.json"
    kept.write(outcome, file)
    said = json.loads(file.read_text())
    damage(said, next(iter(said["runs"])))
    file.write_text(json.dumps(said))
    with pytest.raises(InputError, match="it is corrupt"):
        kept.read(file)


def test_results_of_another_version_of_the_recipe_are_refused(outcome, tmp_path):
    file = tmp_path / "kept" / "tiny.json"
    kept.write(outcome, file)
    told = study(Path(outcome.record.corpus), "evaluate.snapshots=3", seeds=6, metric="validation/loss", again=True)
    kept.check(file, told)
    assert kept.read(file).study.name == "tiny"
    for other in (
        dataclasses.replace(told, seeds=7),
        dataclasses.replace(told, margin=0.1),
        dataclasses.replace(told, control=told.control.set("train.steps", 7)),
    ):
        with pytest.raises(InputError, match="another version of its recipe"):
            kept.check(file, other)


def test_a_tuned_study_is_compared_without_tuned_settings(outcome, tmp_path):
    file = tmp_path / "kept" / "tiny.json"
    told = study(Path(outcome.record.corpus), "evaluate.snapshots=3", seeds=6, metric="validation/loss", again=True)
    told = dataclasses.replace(told, tune={"train.optimizer.lr": [1e-3, 1e-2]})
    outcome = dataclasses.replace(outcome, record=dataclasses.replace(outcome.record, id=told.id))
    for arm in outcome.record.tables[0].arms:
        arm.spec["train"]["optimizer"]["lr"] = 0.5  # what tuning chose
    kept.write(outcome, file)
    kept.check(file, told)
    outcome.record.tables[0].arms[1].spec["train"]["batch"] = 5
    kept.write(outcome, file)
    with pytest.raises(InputError, match="another version"):
        kept.check(file, told)


def test_dropped_arms_are_not_stored(outcome, tmp_path):
    file = tmp_path / "kept" / "tiny.json"
    (table,) = outcome.record.tables
    gone = dataclasses.replace(table.arms[1], name="gone", dropped=True, runs={0: "never-trained"})
    tables = (dataclasses.replace(table, arms=(*table.arms, gone)),)
    outcome = dataclasses.replace(outcome, record=dataclasses.replace(outcome.record, tables=tables))
    kept.write(outcome, file)
    told = study(Path(outcome.record.corpus), "evaluate.snapshots=3", seeds=6, metric="validation/loss", again=True)
    kept.check(file, told)
    assert [arm.name for arm in kept.read(file).study.tables[0].arms] == [v.name for v in told.variants]
