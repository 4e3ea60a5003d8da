"""Grade submissions to a transformer assignment by what they do, however they are written.

grade("submission/", "rubric.toml")   one submission: points per check, with counterexamples
points("classifier", "rubric.toml", ".")  one part, for a notebook: prints the feedback, returns the points
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from headtohead.grading.grade import Grade, Scored, as_graded, grade_class, submissions_in
from headtohead.grading.grade import grade as _grade
from headtohead.grading.rubric import Rubric, read_rubric
from headtohead.grading.scoring import points, reached

__all__ = [
    "Grade",
    "Rubric",
    "Scored",
    "as_graded",
    "grade",
    "grade_class",
    "points",
    "reached",
    "read_rubric",
    "submissions_in",
]


def grade(submission: str | PathLike[str], rubric: str | PathLike[str] | Rubric) -> Grade:
    """Grade a folder or .zip file with a rubric, as `h2h grade` does."""
    found = rubric if isinstance(rubric, Rubric) else read_rubric(Path(rubric))
    return _grade(Path(submission), found)
