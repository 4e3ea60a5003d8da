"""A rubric is read, or refused in one line that names the place and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.grading import read_rubric

COURSE = Path(__file__).parents[2] / "src/headtohead/course"
PART = '[[part]]\nname = "a"\nfile = "a.py"\n'


def test_the_rubric_of_the_course_is_read() -> None:
    rubric = read_rubric(COURSE)
    assert [part.name for part in rubric.parts] == ["classifier", "decoder", "exploration", "puzzles", "finetune"]
    assert rubric.points == 98
    assert rubric.limits.seconds == 60


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seed = ", "is not TOML"),
        ("seed = 1", "has no [[part]]"),
        ("sed = 1", "no entry 'sed': did you mean seed?"),
        (PART, "part 'a' has no [[part.check]]"),
        (PART + "[[part.check]]\nkind = 'audit'", "check 1: needs 'points', a number"),
        (PART + "[[part.check]]\nkind = 'audit'\npoints = -1", "points must be from 0 to 1,000,000"),
        (PART + "[[part.check]]\nkind = 'adit'\npoints = 1", "no kind 'adit': did you mean audit?"),
        (PART + "[[part.check]]\nkind = 'audit'\npoints = 1\nskp = []", "no entry 'skp': did you mean skip?"),
        (PART + "[[part.check]]\nkind = 'figure'\npoints = 1", "a check of kind figure needs 'task'"),
        (PART + "[[part.check]]\nkind = 'reference'\npoints = 1", "needs the part's 'reference'"),
        (PART + "reference = 'no.py:A'\n[[part.check]]\nkind = 'audit'\npoints = 1", "there is no reference no.py:A"),
        ("[[part]]\nfile = 'a.py'", "part 1: needs 'name', a text"),
        ("part = 3", "'part' must be a list"),
        ("[limits]\nminutes = 3", "no entry 'minutes'"),
    ],
)
def test_a_bad_rubric_is_refused_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "rubric.toml").write_text(text)
    with pytest.raises(InputError) as error:
        read_rubric(tmp_path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_rubric_that_is_not_there_or_binary(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rubric"):
        read_rubric(tmp_path / "none.toml")
    (tmp_path / "rubric.toml").write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match="is not TOML"):
        read_rubric(tmp_path)
