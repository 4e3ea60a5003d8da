"""The store: one folder a run, everything in it written whole or not at all. Imports no torch.

    <home>/runs/<id>/   run.json       the whole spec
                        env.json       where and with what it ran
                        metrics.jsonl  a line a look, nothing in it but results
                        times.json     how long it took
                        checkpoint.safetensors, checkpoint.old.safetensors   while it runs
                        tokenizer.json, items.npz, model.safetensors, snapshots/
                        result.json    written last: it exists exactly when the run is complete
                        LOCK           held by the process that trains it
    <home>/audits/      what was found of a model before it was trained

Folders of two machines are merged by copying. A file that is torn or of other hands is set aside, never trusted, never
deleted.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from headtohead.errors import InputError, Unavailable, nearest


def home() -> Path:
    folder = Path(os.environ.get("HEADTOHEAD_HOME") or "h2h-results")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise Unavailable(f"{folder} is a file, and runs go into a folder: set HEADTOHEAD_HOME to a folder of yours")
    return folder


UNFINISHED = ".unfinished"
FORBIDDEN = {
    *(errno.EACCES, errno.EROFS, errno.EPERM),
    *(errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP),  # nobody could, such as in /proc
}


@contextlib.contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Say a full or forbidden disk in one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise Unavailable(
                f"the disk is full, {path} could not be written: free some room and give the same command again, "
                "it goes on from the last checkpoint"
            ) from None
        if error.errno == errno.EISDIR:
            raise Unavailable(f"cannot write {path}: it is a folder; rename or remove it") from None
        if error.errno in FORBIDDEN:
            raise Unavailable(f"cannot write {path}: {error.strerror}; {_elsewhere(path)}") from None
        raise


def _elsewhere(path: Path) -> str:
    """What to do where nothing may be written: the store has a place that can be chosen, other files were given one."""
    base = os.path.abspath(os.environ.get("HEADTOHEAD_HOME") or "h2h-results")
    here = os.path.abspath(path)
    own = here == base or here.startswith(os.path.join(base, ""))
    return "set HEADTOHEAD_HOME to a folder of yours" if own else "choose a folder of yours"


def write_whole(path: Path, content: bytes | str) -> None:
    """The new content or the old one, never a part: written aside, synced, renamed."""
    data = content.encode() if isinstance(content, str) else content
    with room_for(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
        try:
            os.chmod(aside, 0o644)  # not for its owner alone: folders are copied and shared
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise


def clear_unfinished(*folders: Path) -> None:
    """What `write_whole` had begun when its process was killed: nothing refers to it. Only for the holder of a lock."""
    for folder in folders:
        for file in folder.glob(".*.*") if folder.is_dir() else ():
            if file.name.endswith(UNFINISHED):
                file.unlink(missing_ok=True)


def to_text(value: Any) -> str:
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """As JSON has it: what is not a finite number is null."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


MEASURES = "measures.json"


@dataclass(frozen=True)
class Record:
    """One run's folder, read."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @cached_property
    def spec(self) -> dict[str, Any]:
        return self._json("run.json")

    @cached_property
    def result(self) -> dict[str, Any] | None:
        if not (self.folder / "result.json").is_file():
            return None
        found = self._json("result.json")
        if not isinstance(found, dict) or "status" not in found:
            raise self._unreadable("result.json")
        return found

    @property
    def environment(self) -> dict[str, Any]:
        return self._json("env.json") if (self.folder / "env.json").is_file() else {}

    @property
    def times(self) -> dict[str, Any]:
        return self._json("times.json") if (self.folder / "times.json").is_file() else {}

    @property
    def measures(self) -> dict[str, dict[str, float]]:
        """Figures beyond those of its result, by the recipe that asked for them."""
        found: dict[str, dict[str, float]] = self._json(MEASURES) if (self.folder / MEASURES).is_file() else {}
        return found

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines written so far; a last line that is still being written is left out."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1] if path.is_file() else []
        try:
            return [json.loads(line) for line in lines]
        except ValueError:
            raise self._unreadable("metrics.jsonl") from None

    def items(self, name: str) -> dict[str, np.ndarray]:
        """What was measured of a set, item by item."""
        try:
            with np.load(self.folder / "items.npz", allow_pickle=False) as arrays:
                found = {k.partition("/")[2]: arrays[k] for k in arrays.files if k.partition("/")[0] == name}
                known = {k.partition("/")[0] for k in arrays.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            raise self._unreadable("items.npz") from None
        if not found:
            raise InputError(f"run {self.id} measured no set '{name}': {nearest(name, known)}")
        return found

    @property
    def state(self) -> str:
        """complete, diverged, running, failed or stopped."""
        if self.result is not None:
            return str(self.result.get("status", "complete"))
        if locked(self.folder):
            return "running"
        return "failed" if (self.folder / "failed.json").is_file() else "stopped"

    @property
    def failure(self) -> str:
        return str(self._json("failed.json")["reason"]) if (self.folder / "failed.json").is_file() else ""

    def _json(self, name: str) -> Any:
        path = self.folder / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise self._unreadable(name) from None

    def _unreadable(self, name: str) -> InputError:
        path = self.folder / name
        return InputError(f"{path} cannot be read: it is torn or not ours; set it aside and train again")


def runs(where: Path | None = None) -> list[Record]:
    """Every run in the store, the latest last."""
    folder = (where or home()) / "runs"
    found = [Record(f) for f in folder.iterdir() if (f / "run.json").is_file()] if folder.is_dir() else []
    return sorted(found, key=lambda r: ((r.folder / "run.json").stat().st_mtime_ns, r.id))


def find_run(name: str, where: Path | None = None) -> Record:
    """A run by its id, a unique beginning of it, or `latest`."""
    known = runs(where)
    if not known:
        raise InputError(f"there are no runs in {(where or home())}: train one with `h2h train lm`")
    if name == "latest":
        return known[-1]
    found = [r for r in known if r.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise InputError(f"'{name}' begins {len(found)} runs: {', '.join(r.id for r in found[:5])}; give more of it")
    raise InputError(f"no run '{name}' in {(where or home())}: see `h2h list runs`")


class Busy(InputError):  # noqa: N818
    """Another process holds the lock."""


# -- locks -------------------------------------------------------------------------------------------------------------


def _lock_file(file: IO[bytes]) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def lock(folder: Path, patience: float = 0.5) -> Iterator[None]:
    """Two processes never train one run. The system frees the lock when its holder dies, however it dies."""
    with room_for(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / "LOCK", "a+b")  # noqa: SIM115
    with file:
        tries = round(patience / 0.02)  # someone who only asks holds it for a moment
        while not _lock_file(file) and (tries := tries - 1):
            time.sleep(0.02)
        if not tries:
            what = (
                f"run {folder.name} is being trained" if folder.parent.name == "runs" else f"{folder} is being written"
            )
            raise Busy(f"{what} by another process: wait for it, or stop it")
        yield


def locked(folder: Path) -> bool:
    path = folder / "LOCK"
    if not path.is_file():
        return False
    try:
        with open(path, "r+b") as file:
            return not _lock_file(file)
    except OSError:
        return False


def set_aside(path: Path) -> Path:
    """Rename a file that cannot be trusted, keeping it."""
    for number in range(1000):
        aside = path.with_name(f"{path.name}.torn{number or ''}")
        if not aside.exists():
            os.replace(path, aside)
            return aside
    raise InputError(f"{path} was set aside a thousand times: look at that disk")
