"""Points of one part, for notebooks and for the tests of other graders.

points("classifier", "rubric/", ".")               prints the feedback and returns the points: a test cell of nbgrader
reached("classifier", "audit", 3, "rubric/", ".")  raises AssertionError below 3 points: a test case of otter

The submission's code does not run in the process that calls these. Each check has its own, with the rubric's limits.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from pathlib import Path

from headtohead.errors import InputError, nearest
from headtohead.grading.grade import Grade, grade
from headtohead.grading.rubric import Rubric, read_rubric
from headtohead.grading.submission import Submission, read_submission

Place = str | PathLike[str]
WRITTEN = "written by h2h grade --otter"


def points(part: str, rubric: Place, submission: Place = ".", within: float | None = None) -> float:
    """Grade one part of a folder, print what each check says, and return the points.

    `within` is a limit in seconds for the part: no check gets more than its share.
    """
    found = graded(part, rubric, submission, within)
    print(feedback(found))
    return found.points


def reached(part: str, check: str, least: float, rubric: Place, submission: Place = ".") -> None:
    """Raise AssertionError with the feedback if a check of a part gives less than `least` points."""
    found = graded(part, rubric, submission)
    item = next((one for one in found.items if one.name == check), None)
    if item is None:
        raise InputError(f"the part '{part}' has no check '{check}': {nearest(check, [i.name for i in found.items])}")
    if item.points < least - 1e-6:
        raise AssertionError(f"{item.points:g} of {item.out_of:g} points. {'. '.join(item.says)}")


def feedback(grade: Grade) -> str:
    """What each check says, a line or more each."""
    lines = []
    for item in grade.items:
        lines.append(f"{item.points:g} of {item.out_of:g}  {item.name}")
        lines += [f"    {says}" for says in item.says]
    lines += grade.notes
    return "\n".join([*lines, f"{grade.points:g} of {grade.out_of:g} points"])


def graded(part: str, rubric: Place, submission: Place = ".", within: float | None = None) -> Grade:
    """The grade of one part. The same files are graded once."""
    place, folder = Path(rubric), Path(submission)
    read = read_rubric(place)
    one = next((p for p in read.parts if p.name == part), None)
    if one is None:
        raise InputError(f"the rubric has no part '{part}': {nearest(part, [p.name for p in read.parts])}")
    handed = _without(read_submission(folder), files_of(place, read))
    seconds = read.limits.seconds if within is None else min(read.limits.seconds, within / len(one.items))
    digest = _digest(handed, files_of(place, read))
    return _graded(str(place.resolve()), part, str(folder.resolve()), seconds, digest)


@lru_cache(maxsize=64)
def _graded(rubric: str, part: str, folder: str, seconds: float, _files: str) -> Grade:
    place = Path(rubric)
    read = read_rubric(place)
    parts = tuple(p for p in read.parts if p.name == part)
    alone = replace(read, parts=parts, limits=replace(read.limits, seconds=seconds))
    handed = _without(read_submission(Path(folder)), files_of(place, read))
    with tempfile.TemporaryDirectory(prefix="h2h-part-") as made, _errors_kept():
        handed.copy_to(Path(made))
        return replace(grade(Path(made), alone), submission=handed.name, notes=handed.notes)


def files_of(place: Path, rubric: Rubric) -> list[Path]:
    """The rubric's own files: the rubric, its tests, its solutions and the folders that these are in."""
    found = {rubric.folder / ("rubric.toml" if place.is_dir() else place.name)}
    for part in rubric.parts:
        found |= {rubric.folder / str(item.given["tests"]) for item in part.items if item.kind == "test"}
        solution = rubric.folder / f"{part.reference.partition('.py')[0]}.py"
        if part.reference and solution.is_file():
            apart = solution.parent != rubric.folder
            found |= {path for path in solution.parent.rglob("*") if path.is_file()} if apart else {solution}
    return sorted(path for path in found if "__pycache__" not in path.parts)


def _without(submission: Submission, own: list[Path]) -> Submission:
    """The submission without the rubric and otter's tests, which may lie in the same folder."""
    base = submission.folder.resolve()
    left_out = {path.relative_to(base).as_posix() for path in own if path.is_relative_to(base)}
    left_out |= {file for file in submission.files if file.startswith("tests/") and _is_of_otter(base / file)}
    return replace(submission, files=tuple(file for file in submission.files if file not in left_out))


def _is_of_otter(file: Path) -> bool:
    with file.open("rb") as opened:
        return WRITTEN.encode() in opened.read(200)


def _digest(submission: Submission, own: list[Path]) -> str:
    found = hashlib.sha256()
    for path in (*own, *(submission.folder / file for file in submission.files)):
        found.update(f"{path}\n".encode())
        with contextlib.suppress(OSError):
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


@contextlib.contextmanager
def _errors_kept() -> Iterator[None]:
    """Keep standard error quiet: nbgrader gives no points for a cell that prints there. Print it if something fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept:
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            if said := kept.read().decode(errors="replace").strip():
                print(said)
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)
