"""Studies that the page starts: each is an `h2h` command in a process of its own.

The page runs exactly the command that it shows, so ids, bits and verdicts are those of the command line. A job is a
folder in the store with its command and what it printed. The server may be killed and started again: jobs go on, and
any server of the store sees them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.routing import Route

from headtohead.errors import InputError
from headtohead.run import files, store
from headtohead.run.progress import is_alive
from headtohead.run.results import DAMAGED, JsonObject
from headtohead.web.answers import answered
from headtohead.web.bench import Bench

JOB, OUTPUT = "job.json", "output.txt"
NAME = re.compile(r"[0-9a-f]{12}")
MOST_OUTPUT = 20_000  # characters of what a job printed that are shown


def routes(bench: Bench) -> list[Route]:
    def jobs() -> dict[str, Any]:
        return {"jobs": listed(bench.home)}

    def stop_job(id: str) -> dict[str, Any]:
        return stop(bench.home, id).to_json()

    return [Route("/api/jobs", answered(jobs)), Route("/api/jobs/stop", answered(stop_job), methods=["POST"])]


@dataclass(frozen=True)
class Job(JsonObject):
    """job.json: a command that the page started."""

    id: str
    command: list[str]  # after h2h
    pid: int
    started: float  # seconds since 1970
    born: str  # when the system started the process: another process may get its number later

    @property
    def is_running(self) -> bool:
        if self.pid in _STARTED:
            return _STARTED[self.pid].poll() is None
        return is_alive(self.pid) and _born(self.pid) == self.born


_STARTED: dict[int, subprocess.Popen[bytes]] = {}  # by this process: the system keeps them until they are asked about


def start(home: Path, command: list[str]) -> Job:
    """Start `h2h COMMAND` in a process group of its own, which outlives the server."""
    id = secrets.token_hex(6)
    folder = home / files.JOBS / id
    with store.one_line_write_errors(folder):
        folder.mkdir(parents=True)
        output = open(folder / OUTPUT, "xb")  # noqa: SIM115
    environment = {**os.environ, "HEADTOHEAD_HOME": str(home.resolve()), "NO_COLOR": "1", "COLUMNS": "100"}
    with output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headtohead.cli", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    _STARTED[process.pid] = process
    job = Job(id, command, process.pid, time.time(), _born(process.pid))
    store.write_whole(folder / JOB, store.to_text(job.to_json()))
    return job


def stop(home: Path, id: str) -> Job:
    """Stop a job as Ctrl-C would: everything is saved, and the same command continues."""
    job = read(home, id)
    if job.is_running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGINT)
    return job


def read(home: Path, id: str) -> Job:
    if not NAME.fullmatch(id):
        raise InputError(f"there is no job '{id[:40]}': reload the page")
    try:
        return Job.from_json(json.loads((home / files.JOBS / id / JOB).read_text(encoding="utf-8")))
    except (OSError, *DAMAGED):
        raise InputError(f"there is no job '{id}': reload the page") from None


def listed(home: Path) -> list[dict[str, Any]]:
    """All jobs, the newest first, with the end of what they printed."""
    found = []
    folder = home / files.JOBS
    for one in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(InputError):
            job = read(home, one.name)
            found.append({**job.to_json(), "running": job.is_running, "output": output(home, job.id)})
    return sorted(found, key=lambda job: -job["started"])


def output(home: Path, id: str) -> str:
    try:
        with open(home / files.JOBS / id / OUTPUT, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_OUTPUT))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _born(pid: int) -> str:
    """When the process was started, by the system's clock; empty where the system does not tell."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if after_name[0] == "Z" else after_name[19]
