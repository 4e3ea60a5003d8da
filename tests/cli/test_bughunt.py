"""h2h bughunt: the task, the key, the marks, and one line for bad input."""

import json
from pathlib import Path

import pytest

from headtohead import bughunt
from helpers.terminal import Type, is_one_line

ADA = ("bughunt", "--student", "ada", "--course", "s")


def test_the_task_and_its_key(tmp_path: Path, type_in: Type) -> None:
    done = type_in(*ADA, "--out", tmp_path / "hunt")
    assert done.code == 0
    assert "give it to ada" in done.out
    key = type_in(*ADA, "--answer").out
    (first, *_) = bughunt.answer("ada", course="s")
    assert f"line {first.line} ({first.family}): {first.wrong}" in key
    assert f"    fix    {first.fix}" in key
    found = type_in(*ADA, "--answer", "--json").json
    assert [a["line"] for a in found] == [a.line for a in bughunt.answer("ada", course="s")]
    assert type_in(*ADA, "--answer", "--out", tmp_path / "key.txt").code == 0
    assert (tmp_path / "key.txt").read_text() == key


def test_the_secret_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch, type_in: Type) -> None:
    monkeypatch.setenv("HEADTOHEAD_COURSE", "s")
    assert type_in("bughunt", "--student", "ada", "--answer").out == type_in(*ADA, "--answer").out


@pytest.mark.slow
def test_a_bug_that_is_left_ends_with_exit_1(tmp_path: Path, type_in: Type) -> None:
    type_in(*ADA, "--out", tmp_path / "hunt", "--bugs", 1)
    done = type_in(*ADA, "--check", tmp_path / "hunt", "--json")
    assert done.code == 1
    assert (done.json["points"], done.json["of"], done.json["new"]) == (0, 1, [])


def test_a_file_that_cannot_be_executed_is_marked(tmp_path: Path, type_in: Type) -> None:
    type_in(*ADA, "--out", tmp_path / "hunt")
    (tmp_path / "hunt" / "repaired.py").write_text("def (")
    done = type_in(*ADA, "--check", tmp_path / "hunt")
    assert done.code == 1
    assert "not executed   the file cannot be imported: SyntaxError" in done.out
    assert json.loads((tmp_path / "hunt" / "hunt.json").read_text())["student"] == "ada"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "say what to do: --out FOLDER"),
        (("--answer", "--check", "x"), "--answer and --check: give one of them"),
        (("--check", "x", "--out", "y"), "leave it out with --check"),
        (("--check", "no-such-folder"), "give --check the folder that was handed in"),
        (("--bugs", "9", "--answer"), "--bugs"),
    ],
)
def test_bad_input_of_bughunt_is_one_line(words: tuple[str, ...], says: str, type_in: Type) -> None:
    is_one_line(type_in(*ADA, *words), says)
