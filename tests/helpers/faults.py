"""A disk that fails: every call that writes below a folder can raise an error, write only a part, or lose its power."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ERRORS = ("full disk", "broken disk", "no memory", "partial write", "power loss")


class PowerLoss(BaseException):
    """Nothing runs after it: no handler may clean up, so the disk ignores all later calls."""


@dataclass
class Disk:
    """Counts the calls that write below `base`, fails in call number `fails_at`, and keeps a log for power losses."""

    base: Path
    fails_at: int = -1
    error: str = ""
    calls: int = 0
    is_off: bool = False
    log: list[tuple[Any, ...]] = field(default_factory=list)
    open_files: dict[int, int] = field(default_factory=dict)  # handle → number of the file
    names: dict[str, int] = field(default_factory=dict)  # path → number of the file
    numbers: int = 0

    def is_below(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(os.path.join(self.base, ""))

    def step(self, write_part: Callable[[], None] | None = None) -> None:
        """Count a call; fail if it is its turn."""
        if self.is_off:
            raise PowerLoss
        self.calls += 1
        if self.calls - 1 != self.fails_at:
            return
        if self.error == "power loss":
            self.is_off = True
            raise PowerLoss
        if self.error == "no memory":
            raise MemoryError
        if self.error == "partial write" and write_part is not None:
            write_part()
        number = errno.EIO if self.error == "broken disk" else errno.ENOSPC
        raise OSError(number, os.strerror(number))

    # -- power losses --------------------------------------------------------------------------------------------------

    def lose_power(self, into: Path, draw: random.Random) -> None:
        """Write to `into` what a disk may have after the power loss: names up to some moment after the last sync of a
        folder, and of each file what was synced and perhaps some of the rest."""
        last = max((n for n, entry in enumerate(self.log) if entry[0] == "sync folder"), default=0)
        until = draw.randint(last, len(self.log))
        data: dict[int, bytearray] = {}
        synced: dict[int, bytes] = {}
        for kind, *given in self.log:
            if kind == "create":
                data.setdefault(given[1], bytearray())
            elif kind == "write":
                data[given[0]] += given[1]
            elif kind == "truncate":
                del data[given[0]][given[1] :]
            elif kind == "sync":
                synced[given[0]] = bytes(data[given[0]])
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        names: dict[str, int] = {}
        for kind, *given in self.log[:until]:
            if kind == "folder":
                os.makedirs(into / given[0], exist_ok=True)
            elif kind == "create":
                names[given[0]] = given[1]
            elif kind == "replace" and given[0] in names:
                names[given[1]] = names.pop(given[0])
            elif kind == "unlink":
                names.pop(given[0], None)
        for name, number in names.items():
            whole, safe = bytes(data[number]), synced.get(number, b"")
            rest = draw.choice([b"", whole[len(safe) :][: draw.randint(0, 64)], bytes(max(0, len(whole) - len(safe)))])
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes(safe + rest if whole.startswith(safe) else safe)


@contextlib.contextmanager
def failing(disk: Disk) -> Iterator[Disk]:
    """Let calls that write below the disk's folder pass through the disk."""
    real = {name: getattr(os, name) for name in ("open", "write", "fsync", "ftruncate", "replace", "unlink", "mkdir")}

    def place(path: Any) -> str:
        return os.path.relpath(path, disk.base)

    def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if not disk.is_below(path):
            return real["open"](path, flags, *more, **named)
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        if writes:
            disk.step()
        handle: int = real["open"](path, flags, *more, **named)
        if writes:
            if place(path) not in disk.names or flags & os.O_EXCL:
                disk.numbers += 1
                disk.names[place(path)] = disk.numbers
                disk.log.append(("create", place(path), disk.numbers))
            disk.open_files[handle] = disk.names[place(path)]
        else:
            disk.open_files[handle] = 0  # a folder that may be synced
        return handle

    def written(handle: int, data: Any) -> int:
        if disk.open_files.get(handle):
            disk.step(lambda: real["write"](handle, bytes(data)[: len(data) // 2]))
            disk.log.append(("write", disk.open_files[handle], bytes(data)))
        return int(real["write"](handle, data))

    def synced(handle: int) -> None:
        if handle in disk.open_files:
            disk.step()
            number = disk.open_files[handle]
            disk.log.append(("sync", number) if number else ("sync folder",))
            return  # quicker than the disk
        real["fsync"](handle)

    def truncated(handle: int, size: int) -> None:
        if disk.open_files.get(handle):
            disk.step()
            disk.log.append(("truncate", disk.open_files[handle], size))
        real["ftruncate"](handle, size)

    def replaced(old: Any, new: Any, **named: Any) -> None:
        if disk.is_below(new):
            disk.step()
            disk.log.append(("replace", place(old), place(new)))
            if place(old) in disk.names:
                disk.names[place(new)] = disk.names.pop(place(old))
        real["replace"](old, new, **named)

    def unlinked(path: Any, **named: Any) -> None:
        if disk.is_below(path):
            disk.step()
            real["unlink"](path, **named)  # raises where there is nothing
            disk.log.append(("unlink", place(path)))
            disk.names.pop(place(path), None)
            return
        real["unlink"](path, **named)

    def made(path: Any, *more: Any, **named: Any) -> None:
        if disk.is_below(path):
            disk.step()
            disk.log.append(("folder", place(path)))
        real["mkdir"](path, *more, **named)

    doubles = dict(zip(real, (opened, written, synced, truncated, replaced, unlinked, made), strict=True))
    with pytest.MonkeyPatch.context() as patch:
        for name, double in doubles.items():
            patch.setattr(os, name, double)
        yield disk
