"""Approve code: what `h2h trust` and `h2h.trust()` call, and what commands ask before they load a model. No torch.

Code is named by a Python file, or by a run or a study whose runs need it. Nothing is executed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.errors import InputError
from headtohead.run import files, store
from headtohead.run.store import Record
from headtohead.run.studies import find_runs, find_study, read_study
from headtohead.spec import trust
from headtohead.spec.stored_code import StoredCode, shown, unapproved

FIRST_LINES = 6  # of a file that are shown before the question


@dataclass(frozen=True)
class Pending:
    """One file that may be approved."""

    name: str  # of the file that the code came from
    text: bytes
    place: Path  # where it can be read
    classes: tuple[str, ...] = ()  # that runs need of it
    runs: tuple[str, ...] = ()  # that need it
    folder: Path | None = None  # what it imports is searched there

    @property
    def sha256(self) -> str:
        return trust.sha256_of(self.text)

    @property
    def is_approved(self) -> bool:
        known = trust.approvals().get(self.sha256)
        return known is not None and (self.folder is None or known.folder == str(self.folder))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sha256": self.sha256,
            "bytes": len(self.text),
            "file": str(self.place),
            "classes": list(self.classes),
            "runs": list(self.runs),
            "approved": self.is_approved,
        }

    def lines(self) -> list[str]:
        """What the user should know before approving."""
        text = self.text.decode(errors="replace").splitlines()
        first = [f"    {_printable(line)[:100]}" for line in text[:FIRST_LINES]]
        rest = len(text) - len(first)
        needed = f"needed by {_several(self.runs)} for {', '.join(self.classes)}" if self.runs else ""
        return [
            f"{_printable(self.name)}, {len(self.text):,} bytes, sha256 {self.sha256}",
            *([needed] if needed else []),
            f"read it: {_printable(str(self.place))}",
            *first,
            *([f"    … {rest:,} more lines"] if rest > 0 else []),
        ]


def _several(runs: tuple[str, ...]) -> str:
    more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
    return f"run{'s' if len(runs) > 1 else ''} {', '.join(runs[:3])}{more}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text.expandtabs(4))


def code_named(name: str, home: Path | None = None) -> list[Pending]:
    """The code that a name stands for: a Python file, or what a run or a study needs and the user has not approved."""
    if name.endswith(".py"):
        return [_of_file(name)]
    return needed_by(records_named(name, home or store.home()))


def _of_file(name: str) -> Pending:
    path = Path(name)
    if not path.is_file():
        raise InputError(f"no file {name}: give the path of a Python file, a run or a study")
    path = path.resolve()
    try:
        return Pending(path.name, path.read_bytes(), path, folder=path.parent)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None


def records_named(name: str, home: Path) -> list[Record]:
    """The runs of a study, of an arm, or one run."""
    if "/" not in name and name != "latest":
        try:
            return study_records(find_study(name, home), home)
        except InputError:
            if (home / files.STUDIES / name).is_dir():
                raise
    return find_runs(name, home)


def study_records(folder: Path, home: Path) -> list[Record]:
    found = (Record.at(home, run) for run in read_study(folder).runs)
    return [record for record in found if record.exists]


def needed_by(records: Iterable[Record]) -> list[Pending]:
    """The code that these runs need and the user has not approved, each file once with all runs that need it."""
    found: dict[str, tuple[StoredCode, Record]] = {}
    classes: dict[str, dict[str, None]] = {}
    for record in records:
        try:
            spec = record.spec
        except InputError:
            continue  # a damaged run is reported by the command that reads it
        for code in unapproved(spec, record.code):
            sha256 = trust.sha256_of(code.text)
            found.setdefault(sha256, (code, record))
            classes.setdefault(sha256, {})[code.name] = None
    return [_pending(code, record, tuple(classes[sha256])) for sha256, (code, record) in found.items()]


def _pending(code: StoredCode, record: Record, classes: tuple[str, ...]) -> Pending:
    copies = record.folder.parent.glob(f"*/{files.CODE}/{trust.sha256_of(code.text)}.py")
    runs = tuple(sorted(path.parent.parent.name for path in copies)) or (record.id,)
    place = code.place or Path(code.file or "")
    return Pending(Path(shown(code.file)).name, code.text, place, classes, runs)


def approve(pending: Iterable[Pending]) -> None:
    for one in pending:
        trust.approve(one.text, one.name, one.folder)


def removed(name: str, home: Path | None = None) -> list[trust.Approval]:
    """Take code off the list: by its sha256 or the beginning of it, by file, or by run or study."""
    known = trust.approvals()
    by_hash = {sha256 for sha256 in known if len(name) >= 8 and sha256.startswith(name.lower())}
    if by_hash:
        if len(by_hash) > 1:
            raise InputError(f"'{name}' is the beginning of {len(by_hash)} hashes: give more of it")
        return trust.remove(by_hash)
    if name.endswith(".py"):
        path = Path(name)
        named = {sha256 for sha256, entry in known.items() if entry.folder and _is_at(entry, path)}
        return trust.remove(named | ({trust.sha256_of(path.read_bytes())} if path.is_file() else set()))
    records = records_named(name, home or store.home())
    return trust.remove({copy.stem for record in records for copy in record.code.glob("*.py")})


def _is_at(entry: trust.Approval, path: Path) -> bool:
    return str(Path(entry.folder or "") / entry.name) == str(path.absolute())
