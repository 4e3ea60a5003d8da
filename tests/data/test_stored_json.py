"""Stored JSON that is damaged, nested, of wrong types, or not ours to read is one line."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from headtohead.data.stored_json import DAMAGED, check_types, parsed, read_json
from headtohead.display.run_list import run_rows, study_rows
from headtohead.errors import InputError, describe
from headtohead.run.store import Record, find_run, runs
from headtohead.run.studies import read_study
from helpers.stores import stored

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Another user's rights, for root; other users have no rights to files without permissions anyway."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user can read, unlike tmp_path."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 500 + "1" + "}" * 500,
        '"\\ud800"',
        "\x00",
        "9" * 5000,
    ],
    ids=["empty", "cut", "open", "deep", "objects", "half", "null", "number"],
)
def test_what_is_no_json_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match="it is corrupt, or not written by headtohead; set it aside and train again"):
        read_json(tmp_path / "a.json", "train again")


def test_a_file_that_may_not_be_read_is_not_called_corrupt(shared: Path) -> None:
    (shared / "a.json").write_text("{}")
    os.chmod(shared / "a.json", 0)
    with as_nobody(), pytest.raises(InputError, match=r"a\.json cannot be read \(Permission denied\): ask its owner"):
        read_json(shared / "a.json", "train again")


@dataclass
class Inner:
    x: float


@dataclass
class Typed:
    n: int
    kind: Literal["a", "b"]
    values: dict[str, float | None]
    inner: tuple[Inner, ...]
    free: Any = None


def test_types_are_checked_at_every_depth() -> None:
    check_types(Typed(1, "a", {"x": 1, "y": None}, (Inner(1.0), Inner(2))))
    right: dict[str, Any] = {"n": 1, "kind": "a", "values": {}, "inner": ()}
    wrong = [
        ("n", "1"),
        ("n", 1.5),
        ("n", True),
        ("kind", "c"),
        ("values", []),
        ("values", {"x": "1"}),
        ("values", {1: 1}),
    ]
    for field, value in [*wrong, ("inner", 5), ("inner", (1,)), ("inner", (Inner("x"),))]:  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            check_types(Typed(**{**right, field: value}))


def test_nested_json_is_among_the_damages() -> None:
    with pytest.raises(DAMAGED):
        parsed("[" * 100_000)


WRONG = [5, "x", [], {}, None, True, -1, ["a", 1], {"a": []}]


@pytest.mark.parametrize("name", ["run.json", "result.json", "times.json", "env.json", "metrics.jsonl"])
def test_wrong_types_in_a_run_are_one_line_and_block_no_list(name: str, home: Path) -> None:
    stored(home, seeds=2)
    file = next((home / "runs").glob(f"*/{name}"))
    lines = file.read_text()
    data = json.loads(lines.splitlines()[0] if name.endswith("l") else lines)
    for key in data:
        for value in WRONG:
            file.write_text(json.dumps(data | {key: value}) + "\n")
            record = Record(file.parent)
            with contextlib.suppress(InputError):
                _ = (record.spec, record.result, record.times, record.environment, record.metrics, record.state)
            assert len(run_rows(home)) == len(runs(home))


@pytest.mark.parametrize("id", ["../../evil", "/etc", "", "x", "0" * 65, "ab\n", "AB"])
def test_a_run_is_found_by_an_id_only(id: str, home: Path) -> None:
    with pytest.raises(InputError, match="is no id of a run"):
        Record.at(home, id)
    stored(home, seeds=2)
    folder = home / "studies" / "stored"
    text = (folder / "study.json").read_text()
    first = read_study(folder).runs[0]
    (folder / "study.json").write_text(text.replace(first, id.replace("\n", "\\n")))
    with pytest.raises(InputError):
        read_study(folder)


def test_a_folder_of_another_user_blocks_no_list(shared: Path) -> None:
    stored(shared, seeds=2)
    stored(shared, seeds=2, name="locked")
    hidden = next((shared / "runs").iterdir())
    for folder in (hidden, shared / "studies" / "locked"):
        os.chmod(folder, 0)
    try:
        with as_nobody():
            rows = {row["run"]: row for row in run_rows(shared)}
            studies = {row["study"]: row["question"] for row in study_rows(shared)}
    finally:
        for folder in (hidden, shared / "studies" / "locked"):
            os.chmod(folder, 0o755)
    assert rows[hidden.name]["state"] == "unreadable"
    assert "Permission denied" in rows[hidden.name]["what"]
    assert len(rows) > 8
    assert "Permission denied" in studies["locked"]
    assert studies["stored"] == "Does it matter?"


def test_latest_is_a_run_that_has_ended(home: Path) -> None:
    stored(home, seeds=2, lost={("Alibi", 1): "failed"})
    last = max((home / "runs").glob("*/failed.json")).parent
    os.utime(last / "run.json", (2e9, 2e9))
    assert runs(home)[-1].id == last.name
    assert find_run("latest", home).has_ended
    assert find_run("latest", home, ended=False).id == last.name


def test_an_exception_that_cannot_be_shown_is_one_line() -> None:
    class Silent(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError("inner")

    assert describe(Silent()) == "Silent: its message cannot be shown, because __str__ raised RuntimeError"
