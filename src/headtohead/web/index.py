"""An index of the store: one row per study, kept in SQLite so that a large store is shown at once.

The index is a cache. It is made from the store's own files, may be deleted at any time, and is never the only place of
anything. A study is read again when its study.json, its progress or a result of its runs has changed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headtohead.data.cache import cache_folder
from headtohead.errors import InputError
from headtohead.run import files, store
from headtohead.run.derived import package_digest
from headtohead.run.progress import read_progress
from headtohead.run.results import DAMAGED
from headtohead.run.studies import read_study

Row = dict[str, Any]
Make = Callable[[Path], Row]


class Index:
    """The rows of all studies of a store, by folder name. Safe to use from several threads and processes."""

    def __init__(self, home: Path, make: Make, file: Path | None = None) -> None:
        self.home, self.make = home, make
        self.file = file or index_file(home)
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[str, Row]] = {}
        self._read()

    def rows(self) -> dict[str, Row]:
        """What is known now, without looking at the store."""
        with self._lock:
            return {name: row for name, (_, row) in self._rows.items()}

    def refresh(self) -> Iterator[tuple[str, Row | None]]:
        """Look at the store; yield every study whose row has changed, and None for those that are gone."""
        there = study_names(self.home)
        for name in sorted(self.rows().keys() - set(there)):
            self._forget(name)
            yield name, None
        for name in there:
            folder = self.home / files.STUDIES / name
            mark = state_of(self.home, folder)
            with self._lock:
                known = self._rows.get(name)
            if known is None or known[0] != mark:
                row = self._made(folder)
                self._keep(name, mark, row)
                yield name, row

    def _made(self, folder: Path) -> Row:
        try:
            return self.make(folder)
        except InputError as error:
            return {"name": folder.name, "error": str(error)}
        except Exception as error:  # one strange study must not hide the others
            sys.stderr.write(traceback.format_exc())
            return {
                "name": folder.name,
                "error": f"{type(error).__name__} while reading {folder}: h2h verify checks it",
            }

    # -- the cache -----------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        made = sqlite3.connect(self.file, timeout=5)
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE IF NOT EXISTS studies (name TEXT PRIMARY KEY, mark TEXT, row TEXT)")
        return made

    def _read(self) -> None:
        try:
            with contextlib.closing(self._connect()) as db:
                found = db.execute("SELECT name, mark, row FROM studies").fetchall()
            self._rows = {name: (mark, json.loads(row)) for name, mark, row in found}
        except (sqlite3.Error, OSError, *DAMAGED):
            self._rows = {}
            with contextlib.suppress(OSError):
                self.file.unlink(missing_ok=True)

    def _keep(self, name: str, mark: str, row: Row) -> None:
        with self._lock:
            self._rows[name] = mark, row
            with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(self._connect()) as db, db:
                db.execute(
                    "INSERT OR REPLACE INTO studies VALUES (?, ?, ?)", (name, mark, json.dumps(store.plain(row)))
                )

    def _forget(self, name: str) -> None:
        with self._lock:
            self._rows.pop(name, None)
            with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(self._connect()) as db, db:
                db.execute("DELETE FROM studies WHERE name = ?", (name,))


def index_file(home: Path) -> Path:
    """The place of the index: one per store and version of this program."""
    key = hashlib.sha256(f"{home.resolve()}:{package_digest()}".encode()).hexdigest()[:16]
    return cache_folder() / "index" / f"{key}.sqlite"


def study_names(home: Path) -> list[str]:
    try:
        with os.scandir(home / files.STUDIES) as entries:
            return sorted(e.name for e in entries if os.path.isfile(os.path.join(e.path, files.STUDY)))
    except OSError:
        return []


def state_of(home: Path, folder: Path) -> str:
    """A mark that changes when the study or a result of its runs changes, or when its training begins or ends."""
    written = _mark(folder / files.STUDY)
    marks = [written, _mark(folder / files.LOCKED), str(read_progress(folder) is not None)]
    base = os.path.join(home, files.RUNS)
    marks += [
        _mark(os.path.join(base, run, files.RESULT)) or _mark(os.path.join(base, run, files.FAILURE))
        for run in _runs_of(folder, written)
    ]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()


@functools.lru_cache(maxsize=65536)
def _runs_of(folder: Path, written: str) -> tuple[str, ...]:  # noqa: ARG001  (another study.json is read again)
    """The runs of a study. A large store is looked at all the time, so study.json is read only when it has changed."""
    try:
        return tuple(read_study(folder).runs)
    except InputError:
        return ()


def _mark(path: str | Path) -> str:
    try:
        known = os.stat(path)
    except OSError:
        return ""
    return f"{known.st_mtime_ns}:{known.st_size}"
