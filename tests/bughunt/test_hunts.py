"""Hunts: the same for a student on every machine, others for other students; a key that names the right lines."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headtohead import InputError, bughunt
from headtohead.bughunt.catalogue import BUGS, SPELLINGS
from headtohead.bughunt.hunts import sound_text, spelled
from helpers.hunted import misjudged

COURSE = "a secret"


def test_a_student_gets_the_same_hunt_on_every_machine() -> None:
    code = "from headtohead.bughunt import hunt_of; print(*[b.name for b in hunt_of(' ADA ', course='a secret').bugs])"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    names = [b.name for b in bughunt.hunt_of("ada", course=COURSE).bugs]
    assert done.stdout.split() == names
    assert names == PINNED, "the hunts of running courses change: raise EDITION"


PINNED = ["positions-restart", "padding-in-the-count", "gradient-erased"]


def test_students_and_courses_get_different_bugs() -> None:
    hunts = [bughunt.hunt_of(f"student {n}", course=COURSE) for n in range(60)]
    assert len({frozenset(b.name for b in hunt.bugs) for hunt in hunts}) >= 58
    assert len({hunt.text() for hunt in hunts}) == 60
    assert {b.name for hunt in hunts for b in hunt.bugs} >= {b.name for b in BUGS[::3]}
    again = [bughunt.hunt_of(f"student {n}", course="another") for n in range(60)]
    assert sum(a.bugs == b.bugs for a, b in zip(hunts, again, strict=True)) <= 1


@pytest.mark.parametrize("count", [1, 3, 5])
def test_bugs_of_a_hunt_have_families_and_lines_of_their_own(count: int) -> None:
    for n in range(30):
        hunt = bughunt.hunt_of(f"student {n}", course=COURSE, bugs=count)
        assert len(hunt.bugs) == len({b.family for b in hunt.bugs}) == count
        lines = [line for a in hunt.answers for line in a.lines]
        assert len(set(lines)) == len(lines)


def test_the_key_repairs_the_file_line_by_line() -> None:
    for n in range(30):
        hunt = bughunt.hunt_of(f"student {n}", course=COURSE, bugs=5)
        lines = hunt.text().splitlines()
        for answer in hunt.answers:
            for number, fix in zip(answer.lines, answer.fix.splitlines(), strict=True):
                assert lines[number - 1].strip() != fix
                indent = len(lines[number - 1]) - len(lines[number - 1].lstrip())
                lines[number - 1] = " " * indent + fix
        assert "\n".join(lines) + "\n" == spelled(sound_text(), hunt.spellings)


@pytest.mark.parametrize("student", ["ada", "grace"])
def test_every_mixture_of_a_hunt_is_judged_right(student: str) -> None:
    assert misjudged(list(bughunt.hunt_of(student, course=COURSE, bugs=2).bugs)) == []


@pytest.mark.slow
def test_mixtures_of_many_hunts_are_judged_right() -> None:
    hunts = [bughunt.hunt_of(f"student {n}", course=COURSE, bugs=3 + n % 3) for n in range(12)]
    assert [text for hunt in hunts for text in misjudged(list(hunt.bugs))] == []


def test_the_folder_has_the_task_and_not_the_solution(tmp_path: Path) -> None:
    folder = bughunt.make("ada", tmp_path / "hunt", course=COURSE)
    assert {f.name for f in folder.iterdir()} == {"HUNT.md", "model.py", "repaired.py", "answers.toml", "hunt.json"}
    assert (folder / "model.py").read_text() == (folder / "repaired.py").read_text() != sound_text()
    hunt = bughunt.hunt_of("ada", course=COURSE)
    given = "".join(f.read_text() for f in folder.iterdir())
    assert COURSE not in given
    for bug, answer in zip(hunt.bugs, hunt.answers, strict=True):
        assert bug.name not in given
        assert bug.wrong not in given
        assert answer.fix not in (folder / "model.py").read_text()
    assert "3 bugs" in (folder / "HUNT.md").read_text()
    assert len(tomllib.loads((folder / "answers.toml").read_text())["bug"]) == 3
    assert json.loads((folder / "hunt.json").read_text())["bugs"] == 3
    with pytest.raises(InputError, match="is not an empty folder"):
        bughunt.make("ada", folder)


@pytest.mark.parametrize(("student", "bugs"), [(" ", 3), ("ada", 0), ("ada", 6)])
def test_bad_input_is_one_line(student: str, bugs: int) -> None:
    with pytest.raises(InputError):
        bughunt.hunt_of(student, bugs=bugs)


def test_spellings_differ_from_student_to_student() -> None:
    chosen = [len(bughunt.hunt_of(f"student {n}").spellings) for n in range(50)]
    assert 5 <= min(chosen) < max(chosen) < len(SPELLINGS)
