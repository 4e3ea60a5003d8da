"""Stop, continue and analyse studies from their page, whoever started them."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import Any

from starlette.routing import Route

from headtohead.errors import InputError
from headtohead.outcome.outcome import load_outcome
from headtohead.outcome.unplanned import analyse_now, analysis_cost
from headtohead.run import files
from headtohead.run.progress import read_progress
from headtohead.run.studies import read_study
from headtohead.spec.userfiles import find_recipe, is_shipped
from headtohead.web import jobs
from headtohead.web.answers import answered
from headtohead.web.bench import Bench

OPTIONS = {"--vary", "--set", "--data", "--seeds", "--max-pairs", "--metric", "--margin", "--rule", "--published"}
OPTIONS |= {"--until", "--futility"}  # what `Study.command` may have


def routes(bench: Bench) -> list[Route]:
    def stop(name: str) -> dict[str, Any]:
        stop_study(bench.study_folder(name))
        return {"stopped": name}

    def resume(name: str) -> dict[str, Any]:
        return jobs.start(bench.home, words_of(read_study(bench.study_folder(name)).command), name).to_json()

    def analysis(name: str) -> dict[str, Any]:
        return vars(analysis_cost(load_outcome(bench.study_folder(name))))

    def analyse(name: str) -> dict[str, Any]:
        return vars(analyse_now(load_outcome(bench.study_folder(name))))

    return [
        Route("/api/study/analysis", answered(analysis)),
        Route("/api/study/analyse", answered(analyse), methods=["POST"]),
        Route("/api/study/stop", answered(stop), methods=["POST"]),
        Route("/api/study/resume", answered(resume), methods=["POST"]),
    ]


def stop_study(folder: Path) -> None:
    """Stop the process that trains a study, as Ctrl-C would."""
    state = read_progress(folder)
    if state is None:
        raise InputError(f"study {folder.name} is not being trained on this machine now")
    pid = int(state["pid"])  # a process that was started when the file says: another program's number is refused
    if pid == os.getpid():
        raise InputError(f"{folder / files.PROGRESS} names this server: delete the file")
    os.kill(pid, signal.SIGINT)


def words_of(command: str) -> list[str]:
    """The words of a stored study's command after `h2h`, if the page may start it: a task or a recipe of the package
    with options, and no file with code."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if words == ["h2h", "demo"]:
        return words[1:]
    options = {word.partition("=")[0] for word in words[3:] if word.startswith("--")}
    name = words[2].partition(":")[0] if len(words) > 2 else ""
    ours = name in ("lm", "classifier") or (name != "" and is_shipped(find_recipe(name)[0]))
    if words[:2] != ["h2h", "run"] or not ours or options - OPTIONS:
        raise InputError(f"the page does not start this study's command: type it in a terminal: {command}")
    if any(".py" in word for word in words):
        raise InputError(f"this study has code of its own, which the page does not start: type {command}")
    return words[1:]
