"""Recipes are imported once; afterwards their texts come from the cache until a recipe changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.spec.userfiles import recipe_names
from headtohead.study.sources import recipe_rows

HEAD = """
import dataclasses
from headtohead import Arm, Study

a = Study("Is it?", Arm(), vary=(), command="h2h run a.py", takes="no time")
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "recipes").mkdir()
    return tmp_path / "recipes" / "mine.py"


def rows_of_mine() -> list[dict[str, str]]:
    return [row for row in recipe_rows() if row["recipe"] == "mine"]


@pytest.mark.usefixtures("source")
def test_every_recipe_has_a_question_and_a_command() -> None:
    assert len(recipe_names()) > 10
    rows = recipe_rows()
    assert {row["recipe"] for row in rows} == recipe_names().keys() - {"published/documents"}
    assert all(row["question"] and row["command"] for row in rows)


@pytest.mark.parametrize(
    ("more", "questions"),
    [
        ("", ["Is it?"]),
        ("b = a", ["Is it?", "Is it?"]),
        ("a = 3", []),
        ("b = dataclasses.replace(a, question='And now?', seeds=3)", ["Is it?", "And now?"]),
        ("b = [a]", ["Is it?"]),
        ("names = ['x', 'y']\nb = dataclasses.replace(a, question=f'Of {len(names)}?')", ["Is it?", "Of 2?"]),
        ("if __name__ == '__main__':\n    a = 3", ["Is it?"]),
    ],
)
def test_studies_of_a_recipe_are_found(source: Path, more: str, questions: list[str]) -> None:
    source.write_text(HEAD + more)
    rows = rows_of_mine()
    assert [row["question"] for row in rows] == questions
    assert {row["command"] for row in rows} <= {"h2h run a.py"}


def test_a_recipe_is_imported_once_until_it_changes(source: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    source.write_text(HEAD + f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    assert [row["question"] for row in rows_of_mine()] == ["Is it?"]
    ran.unlink()
    assert [row["question"] for row in rows_of_mine()] == ["Is it?"]
    assert not ran.exists()
    source.write_text(source.read_text() + "a = dataclasses.replace(a, question='And now?')\n")
    assert [row["question"] for row in rows_of_mine()] == ["And now?"]


def test_a_recipe_that_does_not_import_is_listed_with_why(source: Path) -> None:
    source.write_text(HEAD + "b = Study(")
    for _ in range(2):  # it is not kept: what it needs may be installed later
        (row,) = rows_of_mine()
        assert "SyntaxError: '(' was never closed" in row["question"]
        assert row["command"] == ""
