"""Stop and continue studies from their page, whoever started them."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import Any

from starlette.routing import Route

from headtohead.errors import InputError
from headtohead.run.progress import read_progress
from headtohead.run.studies import read_study
from headtohead.web import jobs
from headtohead.web.answers import answered
from headtohead.web.bench import Bench

ALLOWED = ("run", "demo", "finetune")  # commands that a study is continued with


def routes(bench: Bench) -> list[Route]:
    def stop(name: str) -> dict[str, Any]:
        stop_study(bench.study_folder(name))
        return {"stopped": name}

    def resume(name: str) -> dict[str, Any]:
        return jobs.start(bench.home, command_of(bench.study_folder(name))).to_json()

    return [
        Route("/api/study/stop", answered(stop), methods=["POST"]),
        Route("/api/study/resume", answered(resume), methods=["POST"]),
    ]


def stop_study(folder: Path) -> None:
    """Stop the process that trains a study, as Ctrl-C would."""
    state = read_progress(folder)
    if state is None:
        raise InputError(f"study {folder.name} is not being trained on this machine now")
    pid = int(state["pid"])
    if not _is_ours(pid):
        raise InputError(
            f"process {pid}, which the study names, is no headtohead: the file progress.json is not its own"
        )
    os.kill(pid, signal.SIGINT)


def _is_ours(pid: int) -> bool:
    """Whether the process is headtohead. A store may come from somebody else, and name any process."""
    if pid <= 1 or pid == os.getpid():
        return False
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return any("headtohead" in word or word.endswith("h2h") for word in words)


def command_of(folder: Path) -> list[str]:
    """The command of a study, after h2h. Recipes that are files are refused: a store must not choose code to run."""
    command = read_study(folder).command
    try:
        program, *words = shlex.split(command)
    except ValueError:
        program, words = "", []
    if program != "h2h" or not words or words[0] not in ALLOWED:
        raise InputError(f"study {folder.name} has no command to continue with: run its recipe again")
    if any(".py" in word for word in words):
        raise InputError(f"this study runs a Python file: continue it in a terminal with {command}")
    return words
