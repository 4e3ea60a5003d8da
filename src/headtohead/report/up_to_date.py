"""Whether a study's page is up to date. The page contains a digest of everything it was made from."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headtohead.outcome.outcome import Outcome
from headtohead.outcome.plans import plan_text
from headtohead.run import files
from headtohead.run.derived import package_digest


def digest(outcome: Outcome, asked: dict[str, Any]) -> str:
    """A digest of the study, of every file of its runs by name, size and time, of the user's parts, of this program and
    of the options. Empty while a run has neither a result nor a failure, because such a run may continue."""
    study = outcome.record.to_json()
    plan = plan_text(outcome.folder, outcome.record)  # it depends on locked.json too
    content: list[Any] = [asked, package_digest(), study, plan, *_user_files(study)]
    for run in outcome.record.runs:
        found = sorted(_files(str(outcome.home / files.RUNS / run), ""))
        if not {files.RESULT, files.FAILURE} & {name for name, *_ in found}:
            return ""
        content.append([run, found])
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def is_current(page: Path, made_of: str) -> bool:
    """Whether the page contains this digest."""
    try:
        with open(page, encoding="utf-8", errors="replace") as file:
            found = re.search(r'<meta name="made-of" content="(\w+)">', file.read(2000))
    except OSError:
        return False
    return bool(made_of) and found is not None and found[1] == made_of


def _files(folder: str, within: str) -> Iterator[tuple[str, int, int]]:
    """Name, size and time of every file but the lock, which changes when a run's state is read."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            yield from _files(entry.path, f"{within}{entry.name}/")
        elif entry.name != files.LOCK:
            known = entry.stat()
            yield f"{within}{entry.name}", known.st_size, known.st_mtime_ns


def _user_files(value: Any) -> Iterator[tuple[str, str]]:
    """The user's files that define parts, with a digest of their present content."""
    if isinstance(value, dict):
        if "kind" in value and isinstance(file := value.get("file"), str):
            there = os.path.isfile(file)
            yield file, hashlib.sha256(Path(file).read_bytes()).hexdigest() if there else ""
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _user_files(inner)
