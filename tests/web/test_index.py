"""The index of the store: a cache that follows the store and may be deleted at any time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from headtohead.web.board import board_row
from headtohead.web.index import Index, index_file, study_names


@pytest.fixture
def copied(store: Path, tmp_path: Path) -> Path:
    shutil.copytree(store, tmp_path / "home")
    return tmp_path / "home"


def fresh(home: Path, tmp_path: Path) -> Index:
    return Index(home, board_row, tmp_path / "index.sqlite")


def test_a_row_is_made_once_and_again_when_its_runs_change(copied: Path, tmp_path: Path):
    index = fresh(copied, tmp_path)
    assert index.rows() == {}
    assert [name for name, _ in index.refresh()] == ["tiny"]
    assert list(index.refresh()) == []
    result = next((copied / "runs").glob("*/result.json"))
    os.utime(result, ns=(1, 1))
    assert [name for name, _ in index.refresh()] == ["tiny"]


def test_another_process_reads_the_rows_without_the_store(copied: Path, tmp_path: Path):
    rows = dict(fresh(copied, tmp_path).refresh())
    again = Index(copied, lambda _: pytest.fail("the row was made again"), tmp_path / "index.sqlite")
    assert again.rows() == rows
    assert list(again.refresh()) == []


def test_a_study_that_is_gone_leaves_the_index(copied: Path, tmp_path: Path):
    index = fresh(copied, tmp_path)
    list(index.refresh())
    shutil.rmtree(copied / "studies" / "tiny")
    assert list(index.refresh()) == [("tiny", None)]
    assert index.rows() == {}


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00 but not really", os.urandom(4096)])
def test_a_damaged_index_is_made_again(copied: Path, tmp_path: Path, content: bytes):
    (tmp_path / "index.sqlite").write_bytes(content)
    assert [name for name, _ in fresh(copied, tmp_path).refresh()] == ["tiny"]


def test_a_damaged_study_is_a_row_with_its_reason(copied: Path, tmp_path: Path):
    (copied / "studies" / "tiny" / "study.json").write_text("{}")
    ((name, row),) = fresh(copied, tmp_path).refresh()
    assert name == "tiny"
    assert row is not None
    assert "study.json" in row["error"]


def test_every_store_has_its_own_index(tmp_path: Path):
    assert index_file(tmp_path / "a") != index_file(tmp_path / "b")
    assert study_names(tmp_path / "absent") == []


def test_a_strange_study_does_not_hide_the_others(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A study.json with a right checksum and a value of a wrong type."""
    shutil.copytree(copied / "studies" / "tiny", copied / "studies" / "a-strange-one")

    def make(folder: Path) -> dict[str, object]:
        if folder.name == "a-strange-one":
            raise AttributeError("'int' object has no attribute 'get'")
        return board_row(folder)

    rows = dict(Index(copied, make, tmp_path / "index.sqlite").refresh())
    assert "h2h verify" in str(rows["a-strange-one"])
    assert (rows["tiny"] or {})["arms"]
    assert "AttributeError" in capsys.readouterr().err
