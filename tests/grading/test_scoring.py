"""Points of one part, as notebooks ask for them."""

from __future__ import annotations

import shutil
import sys
import time

import pytest

from headtohead.errors import InputError
from headtohead.grading import points, reached, scoring
from helpers.grading import COURSE, small_rubric


@pytest.fixture
def handed(tmp_path, monkeypatch):
    """The rubric and the solution as a submission in one folder, as otter lays them out; it is the current folder."""
    rubric = small_rubric(tmp_path)
    folder = tmp_path / "handed"
    shutil.copytree(COURSE / "solution", folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.move(rubric, folder / "rubric")
    monkeypatch.chdir(folder)
    scoring._graded.cache_clear()
    return folder


def test_points_are_returned_with_the_feedback(handed, capfd):
    (handed / "puzzles.toml").write_text("select = [-20, 20]\naverage = [0, 0]\ncopy = [1, 1]\n")
    assert points("puzzles", rubric="rubric") == 4
    shown = capfd.readouterr()
    assert shown.out == "4 of 6  attention\n    copy: the output is 16.09, not 60\n4 of 6 points\n"
    assert shown.err == ""  # nbgrader would give no points


def test_a_test_case_fails_with_the_feedback(handed):
    (handed / "puzzles.toml").write_text("select = [-20, 20]\naverage = [0, 0]\ncopy = [1, 1]\n")
    reached("puzzles", "attention", 4, rubric="rubric")
    with pytest.raises(AssertionError, match=r"4 of 6 points. copy: the output is 16.09, not 60"):
        reached("puzzles", "attention", 6, rubric="rubric")


def test_the_same_files_are_graded_once_and_changed_ones_again(handed):
    assert points("exploration", rubric="rubric/rubric.toml") == 8
    start = time.monotonic()
    reached("exploration", "alibi", 4, rubric="rubric/rubric.toml")
    assert time.monotonic() - start < 0.5
    text = (handed / "exploration.py").read_text()
    (handed / "exploration.py").write_text(text.replace("-8.0", "-4.0"))
    assert points("exploration", rubric="rubric/rubric.toml") < 8


def test_the_submissions_code_cannot_read_a_rubric_beside_it(handed):
    (handed / "exploration.py").write_text(
        "import pathlib\nassert not list(pathlib.Path('.').rglob('solution'))\n"
        "from rubric.solution.exploration import *\n"
    )
    assert points("exploration", rubric="rubric") == 0


def test_a_hanging_submission_takes_its_share_of_the_time(handed, capsys):
    (handed / "exploration.py").write_text("while True: pass\n")
    assert points("exploration", rubric="rubric", within=4) == 0
    assert "did not end within 2 seconds" in capsys.readouterr().out


@pytest.mark.usefixtures("handed")
def test_unknown_parts_and_checks_are_one_line():
    with pytest.raises(InputError, match="no part 'puzzels': did you mean puzzles"):
        points("puzzels", rubric="rubric")
    with pytest.raises(InputError, match="no check 'attentoin': did you mean attention"):
        reached("puzzles", "attentoin", 1, rubric="rubric")


def test_nothing_of_the_submission_is_imported_here(handed):
    before = {name: module for name, module in sys.modules.items() if name in ("exploration", "decoder")}
    points("exploration", rubric="rubric")
    assert not [
        n
        for n in ("exploration", "decoder")
        if n in sys.modules and n not in before and str(handed) in str(sys.modules[n])
    ]
