"""Checksums of finished runs: what they cover, copies of a store, and runs of older versions."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from headtohead import Record
from headtohead.run import seal
from headtohead.run.store import Damaged
from helpers.runs import run_on, trained_record, without_checksums
from helpers.terminal import Type

LATER = {"LOCK", "measures.json", "curves.png"}


@pytest.fixture
def record(text: Path, home: Path) -> Record:
    return trained_record(run_on(text, "train.steps=4", "evaluate.snapshots=2"), home)


def test_every_file_of_a_finished_run_is_covered(record: Record) -> None:
    found = {path.relative_to(record.folder).as_posix() for path in record.folder.rglob("*") if path.is_file()}
    listed = {
        name for of in ("result.json", "times.json") for name in json.loads((record.folder / of).read_text())["files"]
    }
    assert found - LATER == listed | {"result.json", "times.json"}


def test_a_copy_on_another_machine_is_sound(record: Record, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(record.folder, tmp_path / "elsewhere" / record.id, copy_function=shutil.copyfile))
    assert seal.damage(copy) == ""
    assert str(tmp_path) not in (copy / "result.json").read_text()


def test_files_added_later_are_no_damage(record: Record) -> None:
    for name in LATER:
        (record.folder / name).write_text("{}")
    assert Record(record.folder).damage == ""


def test_a_run_in_another_folder_is_named(record: Record) -> None:
    moved = record.folder.rename(record.folder.with_name("0" * 16))
    assert Record(moved).damage == f"result.json is of run {record.id}"


def test_three_files_of_another_run_are_named(record: Record, text: Path, home: Path) -> None:
    other = trained_record(run_on(text, "train.steps=4", "evaluate.snapshots=2", seed=1), home)
    for name in ("run.json", "env.json", "times.json"):
        shutil.copy(other.folder / name, record.folder)
    assert Record(record.folder).damage == f"times.json is of run {other.id}"


def test_a_foreign_snapshot_is_named(record: Record) -> None:
    (record.folder / "snapshots" / "step-00000003.safetensors").write_bytes(b"x")
    assert "step-00000003.safetensors is not a file of this run" in Record(record.folder).damage


def test_a_damaged_run_is_not_read(record: Record) -> None:
    path = record.folder / "items.npz"
    os.truncate(path, 10)
    with pytest.raises(Damaged, match=rf"run {record.id} is damaged: items.npz has 10 bytes, not .*--repair"):
        _ = Record(record.folder).result
    assert not Record(record.folder).has_ended


def test_a_run_of_an_older_version_is_read(record: Record, type_in: Type) -> None:
    without_checksums(record.folder)
    assert Record(record.folder).result is not None
    done = type_in("verify")
    assert done.code == 0
    assert "1 run of an older version has no checksums and is not verifiable" in done.out
