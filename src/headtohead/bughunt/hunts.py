"""A hunt: the bugs and the file of one student, a function of the student's ID and the secret of the course."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headtohead.bughunt.catalogue import BUGS, EDITION, SOUND, SPELLINGS, Bug
from headtohead.bughunt.task import ANSWERS_TEXT, TASK
from headtohead.disk.writing import write_whole
from headtohead.errors import InputError

MODEL, REPAIRED, ANSWERS, TASK_FILE, RECORD = "model.py", "repaired.py", "answers.toml", "HUNT.md", "hunt.json"
MOST = 5  # bugs in one file


@dataclass(frozen=True)
class Answer:
    """One bug of the answer key."""

    line: int
    lines: tuple[int, ...]  # all lines that differ; two where lines were exchanged
    wrong: str
    fix: str  # the line as it should be
    check: str  # the check of `h2h audit` that it breaks; empty: none
    of: str  # the class that is to be audited
    seen: str  # without a check: how it can be seen
    bug: str
    family: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def shown_by(self) -> str:
        causal = " --causal" if self.of == "Decoder" else ""
        return f"h2h audit {MODEL}:{self.of}{causal} --only {self.check}" if self.check else self.seen


@dataclass(frozen=True)
class Hunt:
    """The bugs that one student is to find. The same on every machine."""

    student: str
    course: str
    count: int

    def __post_init__(self) -> None:
        if not self.student.strip():
            raise InputError("the student's ID is empty: give --student ID")
        if not self.student.isprintable() or len(self.student) > 200:
            raise InputError("the student's ID must be a short text without control characters: give another --student")
        if not 1 <= self.count <= MOST:
            raise InputError(f"a hunt has 1 to {MOST} bugs, not {self.count}")

    def _rank(self, name: str) -> bytes:
        """An order of names that looks random and is the same on every machine."""
        of = "\0".join((str(EDITION), self.course, self.student.strip().casefold(), name))
        return hashlib.sha256(of.encode(errors="surrogateescape")).digest()

    @cached_property
    def bugs(self) -> tuple[Bug, ...]:
        """Bugs of different families. No two of them replace the same line."""
        chosen: list[Bug] = []
        families: set[str] = set()
        taken: set[int] = set()
        for bug in sorted(BUGS, key=lambda b: self._rank(b.name)):
            lines = set(lines_of(bug))
            if len(chosen) < self.count and bug.family not in families and not lines & taken:
                chosen.append(bug)
                families.add(bug.family)
                taken |= lines
        return tuple(sorted(chosen, key=lambda b: lines_of(b)[0]))

    @cached_property
    def spellings(self) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in SPELLINGS if self._rank(pair[0])[0] % 2)

    def text(self, repaired: Collection[str] = ()) -> str:
        """The student's file, with the bugs that are not in `repaired`."""
        return spelled(planted(b for b in self.bugs if b.name not in repaired), self.spellings)

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """The answer key."""
        handed_out = self.text().splitlines()
        found = []
        for bug in self.bugs:
            right = self.text([bug.name]).splitlines()
            lines = [n for n, (a, b) in enumerate(zip(handed_out, right, strict=True), 1) if a != b]
            fix = "\n".join(right[n - 1].strip() for n in lines)
            found.append(
                Answer(lines[0], tuple(lines), bug.wrong, fix, bug.check, bug.of, bug.seen, bug.name, bug.family)
            )
        return tuple(found)

    def record(self) -> dict[str, Any]:
        """What the folder says about its hunt. It names no bug."""
        sha256 = hashlib.sha256(self.text().encode()).hexdigest()
        return {"student": self.student, "bugs": self.count, "edition": EDITION, "sha256": sha256}


def hunt_of(student: str, *, course: str = "", bugs: int = 3) -> Hunt:
    """The hunt of a student."""
    return Hunt(student, course, bugs)


def sound_text() -> str:
    return SOUND.read_text(encoding="utf-8")


def planted(bugs: Iterable[Bug]) -> str:
    """The sound file with these bugs."""
    text = sound_text()
    for bug in bugs:
        text = text.replace(bug.old, bug.new)
    return text


def spelled(text: str, spellings: Collection[tuple[str, str]]) -> str:
    """The file with other spellings of lines. A line with a bug keeps its spelling where the bug replaced it."""
    for old, new in spellings:
        text = text.replace(old, new)
    return text


def lines_of(bug: Bug) -> list[int]:
    """The lines that a bug changes."""
    pairs = zip(sound_text().splitlines(), planted([bug]).splitlines(), strict=True)
    return [n for n, (a, b) in enumerate(pairs, 1) if a != b]


def make(student: str, folder: str | Path, *, course: str = "", bugs: int = 3) -> Path:
    """Write the task of a student into a new folder: the model with its bugs, what it should be, where to answer."""
    hunt, place = hunt_of(student, course=course, bugs=bugs), Path(folder)
    if place.is_file() or (place.is_dir() and any(place.iterdir())):
        raise InputError(f"{folder} is not an empty folder: give --out another name")
    task = TASK.replace("{student}", student).replace("{bugs}", str(bugs)).replace("{s}", "" if bugs == 1 else "s")
    contents = {
        MODEL: hunt.text(),
        REPAIRED: hunt.text(),
        ANSWERS: ANSWERS_TEXT + '\n[[bug]]\nline = 0\nfix = ""\n' * bugs,
        TASK_FILE: task,
        RECORD: json.dumps(hunt.record(), indent=2) + "\n",
    }
    for name, content in contents.items():
        write_whole(place / name, content)
    return place


def answer(student: str, *, course: str = "", bugs: int = 3) -> tuple[Answer, ...]:
    """The answer key of a student's hunt. It needs the secret of the course that the hunt was made with."""
    return hunt_of(student, course=course, bugs=bugs).answers
