"""Marking a repaired file by what it computes.

The file is compared with every mixture of repaired and unrepaired bugs of this hunt. Several bugs can change one
measurement; a bug counts as repaired if a measurement agrees only with mixtures in which it is repaired.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from json import loads
from pathlib import Path
from typing import Any

from headtohead.bughunt.catalogue import EDITION
from headtohead.bughunt.execution import SECONDS, measured
from headtohead.bughunt.hunts import ANSWERS, RECORD, REPAIRED, Answer, Hunt, hunt_of
from headtohead.bughunt.measurements import WHOLE, Values, agree
from headtohead.errors import InputError

STUDENT = "student.py"
LARGEST = 200_000  # bytes of a file that is read
Mixture = frozenset[str]  # the names of the bugs that are repaired


@dataclass(frozen=True)
class Marked:
    """One bug of a hand-in."""

    answer: Answer
    repaired: bool
    named: bool  # answers.toml names its line
    explained: str  # what answers.toml says about it; not judged


@dataclass(frozen=True)
class Grade:
    """The result of marking one hand-in."""

    student: str
    bugs: tuple[Marked, ...]
    new: tuple[str, ...]  # differences and broken checks that no bug of the hunt explains
    others: tuple[int, ...]  # lines in answers.toml that have no bug
    problem: str = ""  # why the file could not be executed

    @property
    def points(self) -> int:
        return sum(m.repaired for m in self.bugs)

    @property
    def ok(self) -> bool:
        """Whether everything is repaired and nothing new is broken."""
        return self.points == len(self.bugs) and not self.new and not self.problem

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "points": self.points, "of": len(self.bugs), **asdict(self)}

    def __str__(self) -> str:
        lines = [f"{self.student}: {self.points} of {len(self.bugs)} bugs repaired"]
        if self.problem:
            lines.append(f"  not executed   {self.problem}")
        for m in self.bugs:
            done = "repaired" if m.repaired else "not repaired"
            named = "line named" if m.named else "line not named"
            lines.append(f"  {done:<14} line {m.answer.line:>3}, {named:<14}  {m.answer.wrong}")
            if m.explained:
                lines.append(f"{'':<17}their answer: {m.explained}")
        lines += [f"  new            {text}" for text in self.new]
        if self.others:
            lines.append(f"  no bug         line {', '.join(map(str, self.others))}")
        return "\n".join(lines)


def check(folder: str | Path, student: str, *, course: str = "", seconds: float = SECONDS) -> Grade:
    """Mark the folder that a student handed in. It executes `repaired.py` in a process of its own."""
    place = Path(folder)
    hunt = _hunt(place, student, course)
    named, text = _answers(place / ANSWERS), _text(place / REPAIRED)
    found = measured({STUDENT: text}, [STUDENT], seconds)[STUDENT]
    if "problem" in found:
        return grade(hunt, named, frozenset(), [], str(found["problem"]))
    references = _references(hunt)
    repaired = frozenset(b.name for b in hunt.bugs if is_repaired(b.name, references, found["values"]))
    new = new_differences(references[repaired], found["values"])
    if found["broken"]:
        of = measured({"mixture.py": hunt.text(repaired)}, ["mixture.py"])["mixture.py"]["broken"]
        new += [f"h2h audit, {name}: {text}" for name, text in found["broken"].items() if name not in of]
    return grade(hunt, named, repaired, new)


def grade(hunt: Hunt, named: Mapping[int, str], repaired: Mixture, new: Sequence[str], problem: str = "") -> Grade:
    """The grade of a hand-in. `named` has the lines of answers.toml with their sentences."""
    lines = {n for a in hunt.answers for n in a.lines}
    marked = [
        Marked(
            a,
            a.bug in repaired,
            any(n in named for n in a.lines),
            next((named[n] for n in a.lines if named.get(n)), ""),
        )
        for a in hunt.answers
    ]
    others = tuple(sorted(named.keys() - lines - {0}))
    return Grade(hunt.student, tuple(marked), tuple(new), others, problem)


def is_repaired(bug: str, references: Mapping[Mixture, Mapping[str, Values]], values: Mapping[str, Values]) -> bool:
    """Whether the measurements show that a bug is repaired. Complete models decide; parts decide what they leave
    open, as when something else is broken as well."""
    for whole in (True, False):
        yes = no = False
        for name, value in values.items():
            if name.startswith(WHOLE) == whole:
                fits = [mixture for mixture, of in references.items() if agree(of.get(name), value)]
                yes |= bool(fits) and all(bug in mixture for mixture in fits)
                no |= bool(fits) and all(bug not in mixture for mixture in fits)
        if yes or no:
            return yes and not no
    return False


def new_differences(reference: Mapping[str, Values], values: Mapping[str, Values]) -> list[str]:
    """Differences of the complete models from a file with exactly these bugs repaired."""
    names = [name for name in reference if name.startswith(WHOLE) and not agree(reference[name], values.get(name))]
    shown = dict.fromkeys(name.removeprefix(WHOLE).rpartition(" (")[0] for name in names)
    return [f"{name}: not what the model computes with the repairs above" for name in shown]


def _references(hunt: Hunt) -> dict[Mixture, dict[str, Values]]:
    """The measurements of every mixture of repaired and unrepaired bugs."""
    names = [bug.name for bug in hunt.bugs]
    mixtures = [frozenset(m) for n in range(len(names) + 1) for m in itertools.combinations(names, n)]
    files = {f"mixture_{n}.py": hunt.text(mixture) for n, mixture in enumerate(mixtures)}
    found = measured(files)
    return {mixture: found[file]["values"] for mixture, file in zip(mixtures, files, strict=True)}


# -- the folder that was handed in -------------------------------------------------------------------------------------


def _hunt(folder: Path, student: str, course: str) -> Hunt:
    text = _text(folder / RECORD)
    try:
        record = loads(text)
        bugs, sha256, edition = int(record["bugs"]), record["sha256"], record["edition"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{folder / RECORD} is damaged: take it from the folder that h2h bughunt wrote") from None
    if edition != EDITION:
        raise InputError(
            f"{folder} has edition {edition} of the hunts, not {EDITION}: mark it with the version that made it"
        )
    hunt = hunt_of(student, course=course, bugs=bugs)
    if hunt.record()["sha256"] != sha256:
        raise InputError(
            f"the hunt in {folder} is not that of {student} with this secret: check --student and --course"
        )
    return hunt


def _answers(file: Path) -> dict[int, str]:
    """The lines that a student named, with their sentences."""
    text = _text(file)
    try:
        return {
            int(table["line"]): " ".join(str(table.get("fix", "")).split())
            for table in tomllib.loads(text).get("bug", [])
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(f"{file} cannot be read: {error}; it needs [[bug]] tables with line and fix") from None


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; give --check the folder that was handed in") from None
    if len(data) > LARGEST:
        raise InputError(f"{file} has more than {LARGEST:,} bytes: hand in the repaired model alone")
    return data.decode("utf-8", errors="replace")
