"""Recipes are read from their source, and imported where the source does not tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.spec import trust
from headtohead.spec.userfiles import recipe_names
from headtohead.study.sources import _imported, recipe_rows, studies_in_source

HEAD = """
import dataclasses
from headtohead import Arm, Study

a = Study("Is it?", Arm(), vary=(), command="h2h run a.py", takes="no time")
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    return tmp_path / "recipes" / "mine.py"


def test_reading_the_source_equals_importing() -> None:
    assert len(recipe_names()) > 10
    for file in recipe_names().values():
        read = studies_in_source(file)
        assert read is not None, f"{file} has to be imported"
        assert list(read.values()) == _imported(file)


@pytest.mark.parametrize(
    ("more", "questions"),
    [
        ("", ["Is it?"]),
        ("b = a", ["Is it?", "Is it?"]),
        ("a = 3", []),
        ("b = dataclasses.replace(a, question='And now?', seeds=3)", ["Is it?", "And now?"]),
        ("from dataclasses import replace\nb = replace(a, question='And now?')", ["Is it?", "And now?"]),
        ("b: Study = Study(question='Typed?', control=Arm(), vary=())", ["Is it?", "Typed?"]),
        ("b = [a]\nc = a.control.set('seed', 1)\nd, e = (x for x in a.variants)", ["Is it?"]),
        ("def f():\n    return a\nclaims = [f()]\nclaims += [a]", ["Is it?"]),
        ("if __name__ == '__main__':\n    a = 3", ["Is it?"]),
    ],
)
def test_studies_are_found_in_the_source(source: Path, more: str, questions: list[str]) -> None:
    source.write_text(HEAD + more)
    found = studies_in_source(source)
    assert found is not None
    assert [said["question"] for said in found.values()] == questions


@pytest.mark.parametrize(
    "more",
    [
        "b = a.set('train.steps=2')",
        "b = a.set('train.steps=2').set('train.steps=3')",
        "def f():\n    return a\nb = f()",
        "b = next(iter([a]))",
        "b, c = a, a",
        "b = a if a else a",
        "b = {'x': a}['x']",
        "for b in [a]:\n    pass",
        "try:\n    b = a\nexcept ValueError:\n    pass",
        "(b := a)",
        "globals()['b'] = a",
        "class S(Study):\n    pass\nb = S('?', Arm(), vary=())",
        "b = Study(**dict(question='?', control=Arm(), vary=()))",
        "b = Study(f'{1}?', Arm(), vary=())",
        "b = Study('?', Arm(), vary=(), command='a' + 'b')",
        "from os import *",
        "import somewhere_else",
        "b = (lambda: a)()",
        "b = Study(",
    ],
)
def test_values_computed_at_run_time_are_unclear(source: Path, more: str) -> None:
    source.write_text(HEAD + more)
    assert studies_in_source(source) is None


def test_a_study_imported_from_a_neighbour_file_is_found(source: Path) -> None:
    source.with_name("beside.py").write_text(HEAD + "other = a.control")
    source.write_text("from beside import a as b, other\n")
    found = studies_in_source(source)
    assert found is not None
    assert {name: said["question"] for name, said in found.items()} == {"b": "Is it?"}
    source.with_name("beside.py").write_text(HEAD + "b = a.set('train.steps=2')")
    assert studies_in_source(source) is None


def test_an_unclear_recipe_is_imported(source: Path) -> None:
    source.write_text(HEAD + "names = ['x', 'y']\nb = dataclasses.replace(a, question=f'Of {len(names)}?')\n")
    (row,) = (row for row in recipe_rows() if row["recipe"] == "mine")
    assert "h2h trust recipes/mine.py" in row["question"], "not before the user has approved it"
    trust.approve(source.read_bytes(), "mine.py", source.parent)
    rows = [row for row in recipe_rows() if row["recipe"] == "mine"]
    assert [row["question"] for row in rows] == ["Is it?", "Of 2?"]
    assert {row["command"] for row in rows} == {"h2h run a.py"}


def test_a_clear_recipe_is_not_imported(source: Path, tmp_path: Path) -> None:
    source.write_text(HEAD + f"print('run', file=open({str(tmp_path / 'ran')!r}, 'w'))\n")
    assert [row["question"] for row in recipe_rows() if row["recipe"] == "mine"] == ["Is it?"]
    assert not (tmp_path / "ran").exists()


def test_a_recipe_that_does_not_import_is_listed_with_why(source: Path) -> None:
    source.write_text(HEAD + "b = Study(")
    trust.approve(source.read_bytes(), "mine.py", source.parent)
    (row,) = (row for row in recipe_rows() if row["recipe"] == "mine")
    assert "SyntaxError: '(' was never closed" in row["question"]
    assert row["command"] == ""
