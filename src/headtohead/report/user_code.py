"""The source of the user's own parts, as it was stored with the runs. It is parsed as text and never executed."""

from __future__ import annotations

import hashlib
import io
import keyword
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from headtohead.outcome.outcome import Outcome
from headtohead.report.number_text import joined
from headtohead.run.store import Record
from headtohead.spec.statements import digest, standalone

MOST_OPEN = 80  # lines; longer source starts folded


@dataclass(frozen=True)
class UserClass:
    """A class of the user's that arms of a study use."""

    name: str
    uses: str  # model.position of arm A; of all arms
    file: str  # where it was defined; empty for a notebook or an interactive session
    sha256: str  # of the stored copy; empty if there is none
    source: str  # the class and the statements of its file that it uses

    @property
    def origin(self) -> str:
        return self.file or "a notebook or an interactive session"

    @property
    def lines(self) -> int:
        return self.source.count("\n") + 1

    @property
    def is_long(self) -> bool:
        return self.lines > MOST_OPEN

    @property
    def html(self) -> str:
        return highlighted(self.source)


def user_classes(outcome: Outcome) -> list[UserClass]:
    """Every class of the user's in the arms of a study, in the order of the arms."""
    tables = outcome.record.tables
    arms = {arm.name: arm for table in tables for arm in table.arms}
    found: dict[tuple[str, str], list[tuple[str, str, str]]] = {}  # name and digest → arm, path and file of each use
    for arm in arms.values():
        for path, spec in _user_specs(arm.spec):
            found.setdefault((spec["kind"], spec["source"]), []).append((arm.name, path, spec.get("file") or ""))
    classes = []
    for (name, source), used in found.items():
        names = list(dict.fromkeys(arm for arm, _, _ in used))
        who = "all arms" if len(names) == len(arms) > 1 else joined(names)
        uses = f"{joined(list(dict.fromkeys(path for _, path, _ in used)))} of {who}"
        runs = (run for table in tables for arm in table.arms if arm.name in names for run in arm.runs.values())
        text = _stored_copy(name, source, (Record.at(outcome.home, run).code for run in runs))
        sha256 = hashlib.sha256(text).hexdigest() if text else ""
        code = "\n\n".join(s.text.replace("\r", "") for s in standalone(text, name)) if text else ""
        classes.append(UserClass(name, uses, used[0][2], sha256, code))
    return classes


def _user_specs(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Specs of user classes with their paths. Only these have a `source`, the digest of the class."""
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str) and isinstance(value.get("source"), str):
            yield path, value
        for name, inner in value.items():
            yield from _user_specs(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from _user_specs(inner, path)


def _stored_copy(name: str, source: str, folders: Iterable[Path]) -> bytes | None:
    """The first stored file that is intact and whose class has the digest `source`."""
    for folder in folders:
        for file in sorted(folder.glob("*.py")):
            try:
                text = file.read_bytes()
                if hashlib.sha256(text).hexdigest() == file.stem and digest(text, name) == source:
                    return text
            except (OSError, SyntaxError, ValueError, RecursionError):
                continue  # unreadable, or no Python of this version
    return None


def highlighted(source: str) -> str:
    """Python source as HTML, with comments, strings and keywords marked. All text is escaped."""
    starts = [0]
    for line in io.StringIO(source):  # splits at the same characters as the tokenizer
        starts.append(starts[-1] + len(line))
    parts, done = [], 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            look = _look(token)
            if look:
                first, last = (starts[row - 1] + column for row, column in (token.start, token.end))
                parts += [escape(source[done:first]), f'<span class="{look}">{escape(source[first:last])}</span>']
                done = last
    except (tokenize.TokenError, SyntaxError, IndexError):
        pass  # the rest is shown without marks
    return "".join([*parts, escape(source[done:])])


def _look(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.COMMENT:
        return "comment"
    if token.type == tokenize.STRING or tokenize.tok_name[token.type].startswith("FSTRING"):
        return "string"
    return "keyword" if token.type == tokenize.NAME and keyword.iskeyword(token.string) else ""
