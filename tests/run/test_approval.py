"""Code by name: a file, a run, an arm, a study; what is shown of it, approved and removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headtohead as h2h
from headtohead.errors import InputError
from headtohead.outcome.outcome import load_outcome
from headtohead.run import store
from headtohead.run.approval import approve, code_named, needed_by, removed
from headtohead.run.store import Record
from headtohead.spec import trust
from headtohead.spec.statements import digest
from headtohead.spec.userfiles import copy_name
from helpers.stores import stored

SOURCE = 'from headtohead import Rope\n\n\nclass Slow(Rope):\n    """Slow \x1b[31m."""\n'


@pytest.fixture
def runs(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Record]:
    """A study of two arms and two seeds; the second arm has code that is not approved."""
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "trusted.json"))
    outcome = stored(home, {"Slow": -0.1}, seeds=2, again=False)
    found = []
    for row in outcome.rows["", "Slow"]:
        record = Record.at(home, row.run)
        spec = record.spec
        spec["arm"]["model"]["position"] = {
            "kind": "Slow",
            "file": "slow.py",
            "source": digest(SOURCE, "Slow"),
            "theta": 1.0,
        }
        (record.folder / "run.json").write_text(json.dumps(spec))
        record.code.mkdir()
        (record.code / copy_name(SOURCE.encode())).write_text(SOURCE)
        found.append(Record(record.folder))
    return found


def test_code_of_a_run_an_arm_and_a_study(runs: list[Record]) -> None:
    for name in (runs[0].id, runs[1].id[:10], "stored/Slow", "stored/Slow@1", "stored"):
        (one,) = code_named(name)
        assert (one.name, one.classes, one.sha256) == ("slow.py", ("Slow",), trust.sha256_of(SOURCE.encode()))
        assert one.runs == tuple(sorted(record.id for record in runs)), "every run that has the copy"
        assert one.place.read_text() == SOURCE
    assert code_named("stored/Learned") == []
    approve(code_named("stored"))
    assert code_named("stored") == []
    assert [entry.name for entry in removed(runs[0].id)] == ["slow.py"]
    assert len(code_named("stored")) == 1


def test_what_is_shown_is_safe_to_print(runs: list[Record]) -> None:
    (one,) = needed_by(runs)
    lines = one.lines()
    assert all(line.isprintable() for line in lines)
    assert any(one.sha256 in line for line in lines)
    assert "    class Slow(Rope):" in lines


def test_code_of_a_file(runs: list[Record], tmp_path: Path) -> None:  # noqa: ARG001
    file = tmp_path / "slow.py"
    file.write_text(SOURCE)
    (one,) = code_named(str(file))
    assert (one.name, one.folder, one.is_approved) == ("slow.py", tmp_path, False)
    approve([one])
    assert one.is_approved
    assert code_named("stored") == [], "the same file is approved wherever it is"
    file.write_text("x = 1\n")
    assert [entry.name for entry in removed(str(file))] == ["slow.py"], "by the place where it was approved"
    with pytest.raises(InputError, match=r"no file nope\.py"):
        code_named("nope.py")


@pytest.mark.usefixtures("runs")
def test_code_is_removed_by_its_hash() -> None:
    approve(code_named("stored"))
    (sha256,) = trust.approvals()
    assert removed(sha256[:16])[0].sha256 == sha256
    assert trust.approvals() == {}


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("name", ["nope", "stored/Nope", "nope/Slow", "0123456789"])
def test_unknown_names_are_one_line(name: str) -> None:
    with pytest.raises(InputError) as error:
        code_named(name)
    assert "\n" not in str(error.value)


def test_python_approves_as_the_command_does(runs: list[Record]) -> None:
    table = h2h.trust(runs[0].id)
    assert list(table["name"]) == ["slow.py"]
    assert list(table["approved"]) == [True]
    trust.remove(set(trust.approvals()))
    h2h.load(runs[0].id)
    assert trust.approvals() == {}
    h2h.load(runs[0].id, trust=True)
    assert len(trust.approvals()) == 1


def test_a_damaged_run_needs_nothing(runs: list[Record], home: Path) -> None:
    (runs[0].folder / "run.json").write_text("{")
    assert len(needed_by(store.runs(home))) == 1
    assert load_outcome(home / "studies" / "stored").record.name == "stored"


def test_a_file_at_another_place_is_approved_for_that_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it imports is searched in the folder that was approved, so a copy elsewhere is another question."""
    monkeypatch.setenv("HEADTOHEAD_TRUST", str(tmp_path / "trusted.json"))
    for place in ("one", "other"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "slow.py").write_text(SOURCE)
    approve(code_named(str(tmp_path / "one" / "slow.py")))
    assert [one.is_approved for one in code_named(str(tmp_path / "one" / "slow.py"))] == [True]
    assert [one.is_approved for one in code_named(str(tmp_path / "other" / "slow.py"))] == [False]
