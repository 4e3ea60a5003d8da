"""Hand-ins are marked by what they compute."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headtohead import InputError, bughunt
from headtohead.bughunt.grading import is_repaired, new_differences
from headtohead.bughunt.hunts import Hunt
from helpers.hunted import measured

COURSE, STUDENT = "a secret", "ada"
HandIn = Callable[..., Path]


@pytest.fixture
def hunt() -> Hunt:
    return bughunt.hunt_of(STUDENT, course=COURSE)


@pytest.fixture
def hand_in(tmp_path: Path) -> HandIn:
    """Write a hand-in with this repaired file and these answers."""

    def write(text: str, answers: str | None = None) -> Path:
        folder = bughunt.make(STUDENT, tmp_path / "hunt", course=COURSE)
        (folder / "repaired.py").write_text(text)
        if answers is not None:
            (folder / "answers.toml").write_text(answers)
        return folder

    return write


def mark(folder: Path, **given: object) -> bughunt.Grade:
    return bughunt.check(folder, STUDENT, course=COURSE, **given)  # type: ignore[arg-type]


def test_a_file_that_was_rewritten_and_repaired_gets_all_points(hunt: Hunt, hand_in: HandIn) -> None:
    text = hunt.text([b.name for b in hunt.bugs])
    comment = '"""My repair."""\n\n# one more line, so that all lines move\n'
    assert "self.query(x)" in text
    text = comment + text.replace("self.query(x)", "nn.functional.linear(x, self.query.weight, self.query.bias)")
    first, second, _ = hunt.answers
    answers = (
        f"[[bug]]\nline = {first.line}\nfix = 'Now it is right.'\n[[bug]]\nline = 1\n[[bug]]\nline = {second.line}\n"
    )
    grade = mark(hand_in(text, answers))
    assert (grade.ok, grade.points, grade.new, grade.problem) == (True, 3, (), "")
    assert [m.named for m in grade.bugs] == [True, True, False]
    assert grade.others == (1,)
    shown = str(grade)
    assert "ada: 3 of 3 bugs repaired" in shown
    assert "their answer: Now it is right." in shown
    assert grade.to_json()["points"] == 3


def without_clamp(text: str) -> str:
    """Divide by the number of real tokens also where there are none."""
    old = next(line for line in text.splitlines() if "count = real.sum" in line)
    return text.replace(old.strip(), "count = real.sum(dim=1, keepdim=True)")


def test_a_new_difference_costs_no_repair(hunt: Hunt) -> None:
    repaired = hunt.bugs[1].name
    mixtures = [frozenset(b.name for n, b in enumerate(hunt.bugs) if code >> n & 1) for code in range(8)]
    references = {mixture: measured(hunt.text(mixture)) for mixture in mixtures}
    values = measured(without_clamp(hunt.text([repaired])))
    assert [b.name for b in hunt.bugs if is_repaired(b.name, references, values)] == [repaired]
    new = new_differences(references[frozenset([repaired])], values)
    assert new == ["classifier, a text of padding only: not what the model computes with the repairs above"]


@pytest.mark.slow
def test_half_a_repair_and_a_new_bug_are_told(hunt: Hunt, hand_in: HandIn) -> None:
    grade = mark(hand_in(without_clamp(hunt.text([hunt.bugs[1].name]))))
    assert not grade.ok
    assert [m.answer.bug for m in grade.bugs if m.repaired] == [hunt.bugs[1].name]
    assert any("a text of padding only" in line for line in grade.new)
    assert any("h2h audit, Classifier masked-rows" in line for line in grade.new)
    assert not any("cache" in line for line in grade.new), "the bug that is left is not new"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("while True: pass", "did not end within 4 seconds"),
        pytest.param("import os\nos._exit(0)", "the file ended its process", marks=pytest.mark.slow),
        pytest.param("def (", "SyntaxError", marks=pytest.mark.slow),
        pytest.param("raise SystemExit(3)", "SystemExit", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_does_not_run_gets_no_points(text: str, says: str, hand_in: HandIn) -> None:
    grade = mark(hand_in(text), seconds=4 if "while" in text else 60)
    assert says in grade.problem
    assert (grade.points, grade.ok) == (0, False)
    assert "not executed" in str(grade)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("answers.toml", "[[bug]]\nline = 'a'", "answers.toml cannot be read"),
        ("answers.toml", "= 3", "answers.toml cannot be read"),
        ("answers.toml", "[[bug]]\nline = inf", "answers.toml cannot be read"),
        ("hunt.json", "[" * 100_000, "hunt.json is damaged"),
        ("hunt.json", "{}", "hunt.json is damaged"),
        ("repaired.py", "#" * 200_001, "hand in the repaired model alone"),
    ],
)
def test_a_damaged_hand_in_is_one_line(file: str, content: str, says: str, hunt: Hunt, hand_in: HandIn) -> None:
    folder = hand_in(hunt.text())
    (folder / file).write_text(content)
    with pytest.raises(InputError, match=says):
        mark(folder)


def test_the_wrong_student_or_secret_is_refused(hunt: Hunt, hand_in: HandIn) -> None:
    folder = hand_in(hunt.text())
    for student, course in (("grace", COURSE), (STUDENT, "")):
        with pytest.raises(InputError, match="is not that of"):
            bughunt.check(folder, student, course=course)
    with pytest.raises(InputError, match="give --check the folder"):
        bughunt.check(folder / "absent", STUDENT)
