"""A small rubric for tests of what is built on grading, with the course's solution."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
COURSE = ROOT / "src/headtohead/course"
SMALL = """
title = "Two parts"
seed = 3

[[part]]
name = "exploration"
file = "exploration.py"
reference = "solution/exploration.py"

[[part.check]]
kind = "function"
function = "alibi"
points = 4
cases = [{ heads = 4, length = 6 }, { heads = 1, length = 1 }]

[[part.check]]
kind = "function"
function = "rotate"
points = 4
cases = [{ x = { random = [5, 4] }, positions = { range = 5 } }]

[[part]]
name = "puzzles"
file = "puzzles.toml"

[[part.check]]
kind = "attention"
points = 6
keys = [[1, 0], [0, 1], [-1, -1]]
values = [10, 20, 60]
answers = { select = 20, average = 30, copy = 60 }
"""


def small_rubric(folder: Path) -> Path:
    """A folder with a rubric that takes a second or two, and the solution."""
    place = folder / "small"
    place.mkdir()
    (place / "rubric.toml").write_text(SMALL, encoding="utf-8")
    shutil.copytree(COURSE / "solution", place / "solution", ignore=shutil.ignore_patterns("__pycache__"))
    return place
