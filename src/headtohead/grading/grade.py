"""Grade one submission or a class: every check in a process of its own, so that nothing a submission does can stop the
others or change their points."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.errors import InputError, Unavailable, failure
from headtohead.grading.checks import CHECKS, Judge, Verdict, failed
from headtohead.grading.rubric import Item, Part, Rubric
from headtohead.grading.submission import Submission, read_submission, unpacked
from headtohead.sandbox import Ended, Limits, Nursery, protections
from headtohead.sandbox.batch import as_finished, in_order

IMPORTS = ("headtohead.grading.student", "headtohead.parts", "torch._dynamo")
LESS = 5  # times less time for the other checks of a part after one of them ran out of time
MOST_SAID = 1_000  # characters of one line of feedback


@dataclass(frozen=True)
class Scored:
    """One check of one submission."""

    part: str
    name: str
    points: float
    out_of: float
    says: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "says": list(self.says)}


@dataclass(frozen=True)
class Grade:
    """All points of one submission."""

    submission: str
    title: str
    items: tuple[Scored, ...]
    notes: tuple[str, ...] = ()
    error: str = ""  # why nothing was graded

    @property
    def points(self) -> float:
        return round(sum(item.points for item in self.items), 2)

    @property
    def out_of(self) -> float:
        return round(sum(item.out_of for item in self.items), 2)

    @property
    def seconds(self) -> float:
        """Time that the checks took."""
        return round(sum(item.seconds for item in self.items), 2)

    def to_json(self) -> dict[str, Any]:
        return {
            "submission": self.submission,
            "rubric": self.title,
            "points": self.points,
            "out_of": self.out_of,
            "items": [item.to_json() for item in self.items],
            "notes": list(self.notes),
            "error": self.error,
            "kept_from": protections(),
        }


def grade(submission: Path, rubric: Rubric, nursery: Nursery | None = None) -> Grade:
    """Grade a folder or a .zip file."""
    _needs_imports(rubric)
    if nursery is None:
        with Nursery((*IMPORTS, *rubric.imports)) as made:
            return grade(submission, rubric, made)
    if submission.is_file() and submission.suffix == ".zip":
        with tempfile.TemporaryDirectory(prefix="h2h-zip-") as folder:
            found = read_submission(unpacked(submission, Path(folder)))
            found = Submission(submission.stem, found.folder, found.files, found.notes)
            return _graded(found, rubric, nursery)
    return _graded(read_submission(submission), rubric, nursery)


def _needs_imports(rubric: Rubric) -> None:
    """Raise Unavailable if a package of the rubric is absent: otherwise every submission would lose its points."""
    for name in rubric.imports:
        package = name.partition(".")[0]
        if package not in sys.modules and importlib.util.find_spec(package) is None:
            raise Unavailable(f"the rubric imports {package}, which is not installed: pip install {package}")


def _graded(submission: Submission, rubric: Rubric, nursery: Nursery) -> Grade:
    items = [scored for part in rubric.parts for scored in _part(submission, rubric, part, nursery)]
    return Grade(submission.name, rubric.title, tuple(items), submission.notes)


def _part(submission: Submission, rubric: Rubric, part: Part, nursery: Nursery) -> Iterator[Scored]:
    found = submission.find(part.file)
    if found is None:
        missing = f"{part.file} is missing"
        yield from (Scored(part.name, item.name, 0.0, item.points, (missing,)) for item in part.items)
        return
    file, note = found
    stops = ""  # why the part cannot be used at all, told by the first check that needs it
    limits = rubric.limits
    for item in part.items:
        start = time.monotonic()
        if item.kind == "attention":
            verdict = _puzzles(submission.folder / file, item)
        elif stops:
            verdict = failed(stops)
        else:
            verdict, stops, late = _checked(submission, rubric, part, item, file, note, limits, nursery)
            if late:  # a class must not wait for every check of a module that does not end
                limits = replace(limits, seconds=rubric.limits.seconds / LESS)
        share = min(1.0, max(0.0, verdict.share))
        says = tuple(" ".join(line.split())[:MOST_SAID] for line in verdict.says)
        yield Scored(
            part.name, item.name, round(share * item.points, 2), item.points, says, round(time.monotonic() - start, 2)
        )


def _checked(
    submission: Submission,
    rubric: Rubric,
    part: Part,
    item: Item,
    file: str,
    note: str,
    limits: Limits,
    nursery: Nursery,
) -> tuple[Verdict, str, bool]:
    """Return the verdict of one check; if the file cannot even be imported, why; and whether its time ran out."""
    with tempfile.TemporaryDirectory(prefix="h2h-grade-") as made:
        folder = Path(made)
        submission.copy_to(folder)
        opened = False
        try:
            with nursery.work("headtohead.grading.student:serve", folder, limits) as work:
                where = str(Path(file))
                name = "" if item.kind in ("function", "test") else part.object
                answer, _ = work.ask({"do": "open", "file": where, "name": name, "also": list(part.also)})
                opened = True
                notes = [one for one in (note, *map(str, answer["notes"])) if one]
                return CHECKS[item.kind](Judge(rubric, part, work, notes), item), "", False
        except Ended as ended:
            said = str(ended).replace(f"{folder}/", "")
            if "PermissionError" in said:
                said = f"{said}: a submission may not start processes, use the network or leave its folder"
            if ended.why in ("time", "memory", "exit", "crash"):
                said = f"{file}: {said}"
            return failed(said), "" if opened else said, ended.why == "time"
        except InputError:
            raise
        except Exception as error:  # numbers of foreign code can have any shape
            return failed(f"the submission disturbed the check ({failure(error).splitlines()[0]})"), "", False


def _puzzles(file: Path, item: Item) -> Verdict:
    """Queries in a TOML file that make one softmax attention give the wanted outputs."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8-sig"))  # editors of Windows begin files with a mark
    except RecursionError:
        return failed(f"{file.name} is nested too deeply: give a list of numbers for each name")
    except (OSError, ValueError) as error:
        return failed(f"{file.name} is not TOML: {error}")
    keys, values = np.asarray(item.given["keys"], float), np.asarray(item.given["values"], float)
    answers, says = item.given["answers"], []
    for name, wanted in answers.items():
        query = found.get(name)
        if not isinstance(query, list) or len(query) != keys.shape[1] or not all(_is_number(x) for x in query):
            says.append(f"{name}: give {keys.shape[1]} numbers, as in {name} = [{', '.join(['0.5'] * keys.shape[1])}]")
            continue
        scores = keys @ np.asarray(query, float)
        weights = np.exp(scores - scores.max())
        output = float(values @ (weights / weights.sum()))
        if not abs(output - float(wanted)) <= float(item.given.get("tolerance", 0.1)):
            says.append(f"{name}: the output is {output:.2f}, not {float(wanted):g}")
    return Verdict(1 - len(says) / max(1, len(answers)), tuple(says))


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < 1e6


def submissions_in(folder: Path) -> list[Path]:
    """The submissions of a class: the folders and .zip files in a folder."""
    if not folder.is_dir():
        raise InputError(f"no folder {folder}: give the folder that holds the submissions")
    found = [p for p in sorted(folder.iterdir()) if (p.is_dir() or p.suffix == ".zip") and not p.name.startswith(".")]
    if not found:
        raise InputError(f"{folder} holds no submission: one is a folder or a .zip file in it")
    return found


def grade_class(submissions: Sequence[Path], rubric: Rubric, jobs: int = 1) -> Iterator[Grade]:
    """Grade many submissions, some at the same time, and yield each in order when it and those before it are done."""
    _needs_imports(rubric)
    return in_order(submissions, _in_class(rubric), (*IMPORTS, *rubric.imports), jobs)


def as_graded(submissions: Sequence[Path], rubric: Rubric, jobs: int = 1) -> Generator[tuple[int, Grade]]:
    """Grade many submissions, some at the same time, and yield each with its place as soon as it is done."""
    _needs_imports(rubric)
    return as_finished(submissions, _in_class(rubric), (*IMPORTS, *rubric.imports), jobs)


def _in_class(rubric: Rubric) -> Callable[[Path, Nursery], Grade]:
    def run(path: Path, nursery: Nursery) -> Grade:
        try:
            return grade(path, rubric, nursery)
        except (InputError, OSError) as error:
            return Grade(path.name, rubric.title, _nothing(rubric), (), str(error))
        except Exception as error:  # one submission must not stop the class
            said = f"it could not be graded, grade it by hand: {failure(error, ours=True).splitlines()[0]}"
            return Grade(path.name, rubric.title, _nothing(rubric), (), said)

    return run


def _nothing(rubric: Rubric) -> tuple[Scored, ...]:
    return tuple(Scored(part.name, item.name, 0.0, item.points) for part in rubric.parts for item in part.items)
