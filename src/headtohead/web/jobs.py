"""Studies that the page starts: each is an `h2h` command in a separate process.

The page runs exactly the command that it shows, so ids, bits and verdicts are those of the command line. A job is a
folder in the store with its command and what it printed. The server may be killed and started again: jobs go on, and
any server of the store sees them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.routing import Route

from headtohead.disk import writing
from headtohead.errors import InputError
from headtohead.run import files, store
from headtohead.run.progress import born, is_process, read_progress
from headtohead.run.results import DAMAGED, JsonObject
from headtohead.run.studies import has_study
from headtohead.web.answers import answered
from headtohead.web.bench import Bench

JOB, OUTPUT = "job.json", "output.txt"
PROGRAM = ["-P", "-m", "headtohead.cli"]  # -P: a file of the current folder may have the name of one of our modules
NAME = re.compile(r"[0-9a-f]{12}")
MOST_OUTPUT = 20_000  # characters of what a job printed that are shown; of a list, the last LISTED of them
LISTED, MOST_LISTED = 1_000, 50


def routes(bench: Bench) -> list[Route]:
    def jobs() -> dict[str, Any]:
        return {"jobs": listed(bench.home)}

    def job(id: str) -> dict[str, Any]:
        return shown(bench.home, read(bench.home, id), MOST_OUTPUT)

    def stop_job(id: str) -> dict[str, Any]:
        return stop(bench.home, id).to_json()

    return [
        Route("/api/jobs", answered(jobs)),
        Route("/api/jobs/one", answered(job)),
        Route("/api/jobs/stop", answered(stop_job), methods=["POST"]),
    ]


@dataclass(frozen=True)
class Job(JsonObject):
    """job.json: a command that the page started."""

    id: str
    command: list[str]  # after h2h
    pid: int
    started: float  # seconds since 1970
    born: str  # when the system started the process: another process may get its number later
    study: str = ""  # the name of its folder
    code: int | None = None  # how it ended; None: it runs, or ended while no server was there

    @property
    def is_running(self) -> bool:
        return self.code is None and is_process(self.pid, self.born)


def start(home: Path, command: list[str], study: str = "") -> Job:
    """Start `h2h COMMAND` in a separate process group, which outlives the server. A study is started once."""
    with store.lock(home / files.JOBS, patience=5.0):  # two pages may ask at the same moment
        if study and _is_trained(home, study):
            raise InputError(f"study {study} is being trained already: see its page, or stop it first")
        return _started(home, command, study)


def _is_trained(home: Path, study: str) -> bool:
    """Whether a job of this store or a command of a terminal trains the study now."""
    if any(job.study == study and job.is_running for job in _all(home)):
        return True
    return read_progress(home / files.STUDIES / study) is not None


def _started(home: Path, command: list[str], study: str) -> Job:
    id = secrets.token_hex(6)
    folder = home / files.JOBS / id
    with store.one_line_write_errors(folder):
        folder.mkdir(parents=True)
        output = writing.open_new(folder / OUTPUT)
    environment = {**os.environ, "HEADTOHEAD_HOME": str(home.resolve()), "NO_COLOR": "1", "COLUMNS": "100"}
    with output:
        process = subprocess.Popen(
            [sys.executable, *PROGRAM, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    job = Job(id, command, process.pid, time.time(), born(process.pid), study)
    store.write_whole(folder / JOB, store.to_text(job.to_json()))
    threading.Thread(target=_note_end, args=(home, job, process), name=f"job {id}", daemon=True).start()
    return job


def _note_end(home: Path, job: Job, process: subprocess.Popen[bytes]) -> None:
    ended = dataclasses.replace(job, code=process.wait())
    with contextlib.suppress(InputError):  # the store is full or gone: that the process has ended is seen anyway
        if (home / files.JOBS / job.id).is_dir():
            store.write_whole(home / files.JOBS / job.id / JOB, store.to_text(ended.to_json()))


def stop(home: Path, id: str) -> Job:
    """Stop a job as Ctrl-C would: everything is saved, and the same command continues."""
    job = read(home, id)
    if job.is_running:
        with contextlib.suppress(OSError):
            os.killpg(job.pid, signal.SIGINT)
    return job


def read(home: Path, id: str) -> Job:
    if not NAME.fullmatch(id):
        raise InputError(f"there is no job '{id[:40]}': reload the page")
    try:
        return Job.from_json(store.read_json(home / files.JOBS / id / JOB, "start it again"))
    except (InputError, *DAMAGED):
        raise InputError(f"there is no job '{id}': reload the page") from None


def _all(home: Path) -> Iterator[Job]:
    folder = home / files.JOBS
    for one in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(InputError):
            yield read(home, one.name)


def listed(home: Path) -> list[dict[str, Any]]:
    """The newest jobs, the last one first, with the end of what they printed."""
    newest = sorted(_all(home), key=lambda job: -job.started)[:MOST_LISTED]
    return [shown(home, job, LISTED) for job in newest]


def shown(home: Path, job: Job, most: int) -> dict[str, Any]:
    """A job with the end of what it printed. `ready`: its study has a page."""
    ready = bool(job.study) and has_study(home / files.STUDIES / job.study)
    return {**job.to_json(), "running": job.is_running, "ready": ready, "output": output(home, job.id, most)}


def output(home: Path, id: str, most: int = MOST_OUTPUT) -> str:
    try:
        with open(home / files.JOBS / id / OUTPUT, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
