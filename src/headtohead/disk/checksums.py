"""Checksums: the sha256 of files, JSON objects that carry their own, and a memory of what was checked.

Files are hashed when their folder is first read. Their sizes, times of change and places on the disk are then
remembered in the cache folder, and they are hashed again only when one of these changes. Imports no torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.disk.writing import open_to_append, write_all, write_whole
from headtohead.errors import InputError

KEY = "checksum"  # of a JSON object that carries its own
SETTLED_NS = 1_000_000_000  # a younger file may change again without a new time of change
KEPT = 100_000  # remembered folders

Sums = Mapping[str, Any]  # by relative path: [size, sha256]


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sums_of(folder: Path, names: Iterable[str]) -> dict[str, list[Any]]:
    """Size and sha256 of the files of a folder, by name."""
    return {name: [(folder / name).stat().st_size, sha256(folder / name)] for name in names}


# -- JSON objects that carry their own checksum ------------------------------------------------------------------------


def digest(data: Any) -> str:
    """The sha256 of a JSON value; spaces and the order of keys do not matter."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def with_checksum(data: dict[str, Any]) -> dict[str, Any]:
    """The object with its checksum as the last key."""
    rest = {key: value for key, value in data.items() if key != KEY}
    return {**rest, KEY: digest(json.loads(json.dumps(rest)))}


def is_altered(data: Any) -> bool:
    """Whether a JSON object has a checksum that does not match the rest of it."""
    if not isinstance(data, dict) or KEY not in data:
        return False
    return data[KEY] != digest({key: value for key, value in data.items() if key != KEY})


# -- folders -----------------------------------------------------------------------------------------------------------


def damage(folder: Path, sums: Sums) -> str:
    """What is wrong with the first of these files that does not match its checksum; empty if all do."""
    name = ""
    try:
        for name, (size, wanted) in sums.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is not a file" if os.path.lexists(path) else f"{name} is missing"
            found = path.stat().st_size
            if found != size:
                return f"{name} has {found:,} bytes, not {size:,}"
            if sha256(path) != wanted:
                return f"{name} does not match its checksum"
    except OSError as error:
        return f"{name} cannot be read ({error.strerror or error})"
    except (TypeError, ValueError, AttributeError):
        return "its list of checksums is not one"
    return ""


@dataclass
class Memory:
    """Which folders were checked, as marks: short digests of names, sizes, times of change and places on the disk of
    their files.

    It is a file of lines to which processes append. A line that is lost costs time only; one that is damaged matches
    no folder.
    """

    path: Path
    known: set[bytes] = field(default_factory=set)
    was_read: bool = False

    def checked(self, folder: Path, check: Callable[[], str], but: Collection[str] = ()) -> str:
        """What `check` says of a folder; empty, without calling it, if nothing has changed since it said so. Files
        called `but` may change."""
        mark, newest = _mark(folder, but)
        if self._knows(mark):
            return ""
        found = check()
        if not found and time.time_ns() - newest > SETTLED_NS:
            self._add(mark)
        return found

    def _knows(self, mark: bytes) -> bool:
        if not self.was_read:
            self.was_read = True
            with contextlib.suppress(OSError):
                self.known.update(self.path.read_bytes().split(b"\n"))
        return mark in self.known

    def _add(self, mark: bytes) -> None:
        self.known.add(mark)
        with contextlib.suppress(OSError, InputError):  # a memory that cannot be written only costs time
            if len(self.known) > KEPT:  # start again
                write_whole(self.path, mark + b"\n")
                self.known = {mark}
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = open_to_append(self.path)
            try:
                write_all(handle, mark + b"\n")
            finally:
                os.close(handle)


def _mark(folder: Path, but: Collection[str]) -> tuple[bytes, int]:
    """The mark of a folder, and the time of its last change in nanoseconds."""
    lines: list[str] = []
    newest = 0
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.name in but or entry.name.startswith("."):
                        continue
                    if entry.is_dir():
                        waiting.append(entry.path)
                    found = entry.stat()
                    newest = max(newest, found.st_mtime_ns)
                    time_of = 0 if entry.is_dir() else found.st_mtime_ns
                    lines.append(f"{entry.name} {found.st_dev} {found.st_ino} {found.st_size} {time_of}")
        except OSError:  # vanished, or a link to nothing: `check` says so
            lines.append("?")
    text = "\n".join([folder.name, *sorted(lines)])
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest().encode(), newest
