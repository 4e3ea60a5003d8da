"""The store: one folder per run. Files are written completely or not at all. Imports no torch.

    <home>/runs/<id>/   run.json       the complete spec
                        env.json       where and with what the run was trained
                        metrics.jsonl  one line per evaluation or batch loss; results only, no times
                        times.json     how long it took
                        checkpoint.safetensors, checkpoint.old.safetensors   while the run is trained
                        tokenizer.json, items.npz, model.safetensors, snapshots/
                        code/<sha256>.py  source of the user's own parts, named by its content
                        result.json    written last: it exists exactly when the run has ended
                        LOCK           held by the process that trains the run
    <home>/audits/      results of audits

The folders of two machines are merged by copying. A run that has ended has checksums of its files (seal.py). A file or
run that does not match is named and not used; it is renamed, never deleted.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from filelock import BaseFileLock, FileLock, Timeout

from headtohead.data.cache import checked, on_stderr
from headtohead.data.stored_json import DAMAGED, parsed
from headtohead.data.stored_json import Damaged as Damaged
from headtohead.data.stored_json import read_json as read_json
from headtohead.data.stored_json import unreadable as unreadable
from headtohead.disk import checksums
from headtohead.disk.writing import ASIDE, free_name, remove
from headtohead.disk.writing import UNFINISHED as UNFINISHED
from headtohead.disk.writing import clear_unfinished as clear_unfinished
from headtohead.disk.writing import one_line_write_errors as one_line_write_errors
from headtohead.disk.writing import set_aside as set_aside
from headtohead.disk.writing import write_whole as write_whole
from headtohead.errors import InputError, Unavailable, nearest
from headtohead.run import files, seal
from headtohead.run.results import Environment, Failure, JsonObject, Result, Times

if TYPE_CHECKING:
    import numpy as np


def home() -> Path:
    """The store's folder: HEADTOHEAD_HOME, or h2h-results in the working directory."""
    folder = Path(os.environ.get("HEADTOHEAD_HOME") or "h2h-results")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise Unavailable(f"{folder} is a file, not a folder: set HEADTOHEAD_HOME to a folder of yours")
    return folder


def to_text(value: Any) -> str:
    """JSON as the store's files have it."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Turn a value into one that JSON has: lists for tuples, null for NaN and infinity."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


F = TypeVar("F", bound=JsonObject)


@dataclass(frozen=True)
class Record:
    """One run's folder: its files are read when they are asked for."""

    folder: Path

    @classmethod
    def at(cls, home: Path, id: str) -> Record:
        """The run with this id in a store; it may not have been started."""
        if not re.fullmatch("[0-9a-f]{1,64}", id):  # from a file that somebody else may have written
            raise InputError(f"{id[:100]!r} is no id of a run: ids are hexadecimal digits, see `h2h list runs`")
        return cls(home / files.RUNS / id)

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def exists(self) -> bool:
        """Whether the run was started. A folder that we may not look into counts: reading its files says so."""
        try:
            return stat.S_ISREG((self.folder / files.RUN).stat().st_mode) or self.has_result
        except PermissionError:
            return True
        except OSError:
            return self.has_result

    @property
    def has_result(self) -> bool:
        """Whether there is a result; it may be damaged."""
        return os.path.lexists(self.folder / files.RESULT)

    @property
    def has_ended(self) -> bool:
        """Whether there is a result, and no file of the run is damaged. A run that has not ended is to be trained."""
        return self.has_result and not self.damage

    @cached_property
    def damage(self) -> str:
        """What is wrong with the first damaged file of a run that has a result; empty if all are as they were
        written, or if an older version wrote them without checksums."""
        return seal.damage(self.folder, checked())

    @property
    def lost_result(self) -> str:
        """A line about a run that has its weights but no result: the result was deleted, or a kill came just before it
        was written. Empty for any other run."""
        if self.has_result or not (self.folder / files.WEIGHTS).is_file() or locked(self.folder):
            return ""
        return f"{files.RESULT} is missing, although the run was trained to its end"

    @property
    def damage_text(self) -> str:
        """The damage in one line, with the remedy."""
        remedy = f"h2h verify {self.id} --repair sets it aside and trains it again"
        return f"run {self.id} is damaged: {self.damage}; {remedy}"

    def check(self) -> None:
        """Refuse a damaged run."""
        if self.has_result and self.damage:
            raise Damaged(self.damage_text)

    @property
    def code(self) -> Path:
        """The folder with the source of the user's own parts; it is missing if the run has none."""
        return self.folder / files.CODE

    @cached_property
    def spec(self) -> dict[str, Any]:
        self.check()
        return self._json(files.RUN)

    @cached_property
    def result(self) -> Result | None:
        self.check()
        return self._read(files.RESULT, Result)

    def require_result(self) -> Result:
        if self.result is None:
            raise InputError(f"run {self.id} is not complete: continue it first: h2h train --resume {self.id}")
        return self.result

    @property
    def environment(self) -> Environment:
        return self._read(files.ENVIRONMENT, Environment) or Environment()

    @property
    def times(self) -> Times:
        return self._read(files.TIMES, Times) or Times()

    @property
    def measures(self) -> dict[str, dict[str, float]]:
        """Further values of the trained weights, by the recipe that defines them."""
        found = self._json(files.MEASURES) if self._has(files.MEASURES) else {}
        if not isinstance(found, dict):
            raise self._unreadable(files.MEASURES)
        measures = {name: values for name, values in found.items() if name != checksums.KEY}
        if not all(isinstance(values, dict) for values in measures.values()):
            raise self._unreadable(files.MEASURES)
        return measures

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines written so far, without a last line that is still being written."""
        try:
            content = (self.folder / files.METRICS).read_bytes() if self._has(files.METRICS) else b""
            lines = [parsed(line) for line in content.decode("utf-8", "replace").split("\n")[:-1]]
            if not all(isinstance(line, dict) and isinstance(line["step"], int) for line in lines):
                raise TypeError
        except (OSError, *DAMAGED) as error:
            raise self._unreadable(files.METRICS, error) from None
        return lines

    @property
    def clusters(self) -> dict[str, Any]:
        """What was kept of the items, by set."""
        found = self._json(files.CLUSTERS)
        if not isinstance(found, dict):
            raise self._unreadable(files.CLUSTERS)
        return found

    def items(self, name: str) -> dict[str, np.ndarray]:
        """The values of each item of a set."""
        found = self.item_sets([name])
        if not found:
            raise InputError(f"run {self.id} measured no set '{name}': {nearest(name, self.item_sets())}")
        return found[name]

    def item_sets(self, names: Collection[str] | None = None) -> dict[str, dict[str, np.ndarray]]:
        """The values of each item of these sets, as far as they were measured; by default of all sets."""
        import numpy as np

        found: dict[str, dict[str, np.ndarray]] = {}
        try:
            with np.load(self.folder / files.ITEMS, allow_pickle=False) as arrays:
                for key in arrays.files:
                    name, _, what = key.partition("/")
                    if names is None or name in names:
                        found.setdefault(name, {})[what] = arrays[key]
        except (OSError, EOFError, zipfile.BadZipFile, *DAMAGED) as error:
            raise self._unreadable(files.ITEMS, error) from None
        return found

    @property
    def state(self) -> str:
        """complete, diverged, running, failed or stopped."""
        if self.result is not None:
            return self.result.status
        if locked(self.folder):
            return "running"
        return "failed" if self._has(files.FAILURE) else "stopped"

    @property
    def failure(self) -> str:
        """Why the run failed; empty if it did not."""
        found = self._read(files.FAILURE, Failure)
        return "" if found is None else found.reason

    def _read(self, name: str, kind: type[F]) -> F | None:
        if not self._has(name):
            return None
        try:
            return kind.from_json(self._json(name))
        except InputError:
            raise
        except DAMAGED:
            raise self._unreadable(name) from None

    def _has(self, name: str) -> bool:
        return os.path.isfile(self.folder / name)  # False, not an error, in a folder that we may not look into

    def _json(self, name: str) -> Any:
        return read_json(self.folder / name, "train again")

    def _unreadable(self, name: str, error: BaseException | None = None) -> InputError:
        return unreadable(self.folder / name, "train again", error)

    def _started(self) -> int:
        """When the run was started, in nanoseconds; 0 if that cannot be read."""
        try:
            path = self.folder / files.RUN
            return (path if path.is_file() else self.folder).stat().st_mtime_ns
        except OSError:
            return 0


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a JSON object with its checksum. A damaged file of that name is set aside first."""
    if os.path.lexists(path):
        try:
            read_json(path, "")
        except Damaged:
            aside = set_aside(path)
            on_stderr(f"{path} is damaged: it is kept as {aside.name}, and written anew")
    write_whole(path, to_text(checksums.with_checksum(plain(data))))


def runs(where: Path | None = None) -> list[Record]:
    """Every run in the store, the latest last."""
    folder = (where or home()) / files.RUNS
    names = [path for path in folder.iterdir() if ASIDE not in path.name] if folder.is_dir() else []
    found = [record for record in map(Record, names) if record.exists]
    return sorted(found, key=lambda r: (r._started(), r.id))


def find_run(name: str, where: Path | None = None, *, ended: bool = True) -> Record:
    """Find a run by its id, a unique prefix of it, or `latest`: the latest that has ended, or that has not; if there is
    no such run, the latest of all."""
    known = runs(where)
    if not known:
        raise InputError(f"there are no runs in {(where or home())}: train one with `h2h train lm`")
    if name == "latest":
        return next((record for record in reversed(known) if record.has_ended == ended), known[-1])
    found = [r for r in known if r.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise InputError(
            f"'{name}' is the prefix of {len(found)} runs: {', '.join(r.id for r in found[:5])}; give more of the id"
        )
    raise InputError(f"no run '{name}' in {(where or home())}: see `h2h list runs`")


class Busy(InputError):  # noqa: N818
    """Another process holds the lock."""


# -- locks -------------------------------------------------------------------------------------------------------------


def _file_lock(folder: Path) -> BaseFileLock:
    """The lock of a folder. The system frees it when its holder dies, however it dies.

    The file LOCK is never deleted: a process that waits for a deleted file and one that creates it anew would both
    get a lock. A generator that holds the lock may be closed by another thread than the one that started it.
    """
    return FileLock(folder / files.LOCK, thread_local=False, preserve_lock_file=True)


@contextlib.contextmanager
def lock(folder: Path, patience: float = 0.5) -> Iterator[None]:
    """Hold the folder's lock, so that two processes never train one run. Raises Busy if another process holds it for
    `patience` seconds; `locked` holds it for a moment only."""
    try:
        with one_line_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / files.LOCK).is_symlink():  # what it points to would be emptied
                (folder / files.LOCK).unlink()
            held = _file_lock(folder).acquire(timeout=patience, poll_interval=0.02)
    except Timeout:
        what = (
            f"run {folder.name} is being trained" if folder.parent.name == files.RUNS else f"{folder} is being written"
        )
        raise Busy(f"{what} by another process: wait until it ends, or stop it") from None
    with held:
        yield


def locked(folder: Path) -> bool:
    """Whether a process holds the folder's lock. Writes nothing; False in a store that cannot be written."""
    if not os.path.isfile(folder / files.LOCK) or os.path.islink(folder / files.LOCK):
        return False
    try:
        with _file_lock(folder).acquire(blocking=False):
            return False
    except Timeout:
        return True
    except OSError:
        return False


# -- runs that have ended ----------------------------------------------------------------------------------------------


def clear_ended(folder: Path) -> None:
    """Delete the checkpoints of a run that has ended: it may have been killed just after its result was written."""
    for name in (files.CHECKPOINT, files.OLD_CHECKPOINT, files.BEST_WEIGHTS):
        if os.path.lexists(folder / name):
            with contextlib.suppress(Unavailable):  # a store that cannot be written keeps them
                remove(folder / name)


# -- damaged runs ------------------------------------------------------------------------------------------------------


def make_room(folder: Path) -> None:
    """Set a damaged run aside, so that it can be trained again. Only for the holder of the lock."""
    record = Record(folder)
    if record.has_result and record.damage:
        aside = move_aside(folder)
        on_stderr(f"run {folder.name} is damaged: {record.damage}. It is kept as {aside.name}, and trained again")


def move_aside(folder: Path) -> Path:
    """Move the files of a run to `<id>.damaged-1`. Only for the holder of the lock, which stays. The result is moved
    last: a call that was killed is repeated."""
    aside = free_name(folder)
    with one_line_write_errors(aside):
        aside.mkdir()
        for name in sorted(os.listdir(folder), key=lambda name: (name == files.RESULT, name)):
            if name != files.LOCK:
                os.replace(folder / name, aside / name)
    return aside
