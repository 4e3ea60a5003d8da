"""Whose code may run: the list of Python files that this user has approved, by the sha256 of the whole file.

The list is the user's own and never part of a store: HEADTOHEAD_TRUST, or headtohead/trusted.json in the user's config
folder. What the user runs is added to it. Code that comes with a run is executed only if it is on the list. An entry
also keeps the folder from which the user ran the file: only that folder is searched for what the file imports.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headtohead.disk.writing import replace_whole
from headtohead.errors import Unavailable

LIST = "trusted.json"
FORMAT = 1
WAIT = 10.0  # seconds for another process that writes the list


class NotApproved(Unavailable):
    """Code that is not on the user's list, so it is not executed."""


@dataclass(frozen=True)
class Approval:
    """One file on the list."""

    sha256: str
    name: str
    bytes: int
    folder: str | None = None  # where the user ran it; what it imports is searched there
    when: str = ""


class SentCode(dict[str, bytes]):
    """Source files by name for another process of this user, with the folder of each."""

    folders: dict[str, str | None]


_HERE: dict[str, Approval] = {}  # for this process alone
_read_last: tuple[Any, dict[str, Approval], str] = (None, {}, "")  # the list as it was read last, by its file's state


def sha256_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def place() -> Path:
    """The file that holds the list."""
    chosen = os.environ.get("HEADTOHEAD_TRUST")
    if chosen:
        if not os.path.isabs(chosen):
            raise Unavailable("HEADTOHEAD_TRUST must be an absolute path: every folder would have a list otherwise")
        return Path(chosen)
    config = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(config) if os.path.isabs(config) else Path(os.path.expanduser("~")) / ".config"
    if not base.is_absolute():
        raise Unavailable(
            "there is no home folder for the list of approved code: set HEADTOHEAD_TRUST to a file of yours"
        )
    return base / "headtohead" / LIST


def approvals() -> dict[str, Approval]:
    """The list, by sha256; empty where it cannot be read."""
    return _read()[0]


def problem() -> str:
    """Why the list cannot be used; empty if it can."""
    return _read()[1]


def approval(text: bytes) -> Approval | None:
    """The entry of a file with this content, if the user has approved it."""
    sha256 = sha256_of(text)
    return approvals().get(sha256) or _HERE.get(sha256)


def approve(text: bytes, name: str, folder: Path | None = None) -> Approval:
    """Put a file on the list; Unavailable if the list cannot be written."""
    known, sha256 = approvals().get(sha256_of(text)), sha256_of(text)
    if known is not None and (folder is None or known.folder == str(folder)):
        return known
    when = datetime.now(UTC).isoformat(timespec="seconds")
    entry = Approval(sha256, name, len(text), None if folder is None else str(folder), when)
    _change(lambda entries: entries | {sha256: entry})
    return entry


def remember(text: bytes, name: str, folder: Path | None = None) -> None:
    """Approve a file that the user runs. Where the list cannot be written, it is approved in this process alone."""
    try:
        approve(text, name, folder)
    except Unavailable:
        allow({name: text}, {name: None if folder is None else str(folder)})


def allow(code: Mapping[str, bytes], folders: Mapping[str, str | None] | None = None) -> None:
    """Approve code in this process alone: code that the user's own process sent here."""
    folders = folders if folders is not None else getattr(code, "folders", {})
    for name, text in code.items():
        sha256 = sha256_of(text)
        _HERE[sha256] = Approval(sha256, name, len(text), folders.get(name))


def remove(sha256s: set[str]) -> list[Approval]:
    """Take files off the list; returns those that were on it."""
    gone = [entry for sha256, entry in approvals().items() if sha256 in sha256s]
    if gone:
        _change(lambda entries: {k: v for k, v in entries.items() if k not in sha256s})
    return gone


# -- the file ----------------------------------------------------------------------------------------------------------


def _read() -> tuple[dict[str, Approval], str]:
    """The entries, and what is wrong with the file."""
    global _read_last
    try:
        path = place()
        about = os.stat(path)
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError) as error:  # no home folder, or a path that cannot be opened
        return {}, " ".join(str(error).split())
    state = (str(path), about.st_mtime_ns, about.st_size, about.st_ino, about.st_mode)
    if state != _read_last[0]:
        _read_last = (state, *_parsed(path, about))
    return _read_last[1], _read_last[2]


def _parsed(path: Path, about: os.stat_result) -> tuple[dict[str, Approval], str]:
    if os.name == "posix" and about.st_mode & 0o022:
        return {}, f"{path} can be written by other users: check it, then chmod 600 {path}"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return {}, f"{path} was written by another version of headtohead"
        found = {str(sha256): Approval(str(sha256), **entry) for sha256, entry in data["files"].items()}
        right = all(len(k) == 64 and isinstance(e.folder, str | None) for k, e in found.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        right, found = False, {}
    return (found, "") if right else ({}, f"{path} is damaged, so nothing on it counts")


def _change(change: Callable[[dict[str, Approval]], dict[str, Approval]]) -> None:
    """Write the list anew, completely or not at all. A damaged one is copied first."""
    from filelock import FileLock

    path = place()
    try:
        path = Path(os.path.realpath(path))
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(path.with_name(f".{path.name}.lock"), timeout=WAIT):
            entries, wrong = _read()
            if wrong:
                _set_aside(path, wrong)
            files = {k: _entry(e) for k, e in sorted(change(dict(entries)).items())}
            text = json.dumps({"format": FORMAT, "files": files}, indent=2, ensure_ascii=False) + "\n"
            replace_whole(path, text, mode=0o600)  # readable by the user alone
    except (OSError, NotImplementedError) as error:  # filelock's Timeout is an OSError
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise Unavailable(f"cannot write {path}: {reason}; set HEADTOHEAD_TRUST to a file of yours") from None


def _entry(approval: Approval) -> dict[str, Any]:
    return {k: v for k, v in asdict(approval).items() if k != "sha256" and v is not None}


def _set_aside(path: Path, wrong: str) -> None:
    number = 0
    while (copy := path.with_name(f"{path.name}.old{number or ''}")).exists():
        number += 1
    shutil.copy2(path, copy)
    os.chmod(copy, 0o600)
    print(f"h2h: {wrong}; a copy is kept as {copy.name}, and a new list is begun", file=sys.stderr)
