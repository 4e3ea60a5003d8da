"""The checksums of a run that has ended: size and sha256 of each file. Imports no torch.

result.json has those of the files that are the same bits whenever the run is trained. times.json has those of run.json
and env.json, which say where it was trained. Both name the run and carry their own checksum. Files that are added
later (measures.json, curves.png) are not listed: measures.json carries its own checksum, and the picture is never read.
Runs of older versions have no checksums.
"""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from headtohead.disk import checksums
from headtohead.disk.checksums import Memory
from headtohead.run import files
from headtohead.run.results import DAMAGED, Result

OF_PLACE = (files.RUN, files.ENVIRONMENT)  # paths and machine: they differ where the same run is trained twice
OF_RUN = (files.METRICS, files.TOKENIZER, files.ITEMS, files.WEIGHTS)
CHANGING = (files.LOCK, files.MEASURES, files.CURVES, files.FAILURE)  # may change after the end
ID, FILES = "id", "files"


def times_of(folder: Path, id: str, times: dict[str, Any]) -> dict[str, Any]:
    """The content of times.json."""
    return checksums.with_checksum({**times, ID: id, FILES: checksums.sums_of(folder, OF_PLACE)})


def result_of(folder: Path, id: str, result: dict[str, Any], snapshots: dict[str, list[Any]]) -> dict[str, Any]:
    """The content of result.json. All other files must have been written; snapshots have their checksums already."""
    names = [name for name in OF_RUN if (folder / name).is_file()]
    names += [f"{files.CODE}/{name}" for name in _names(folder / files.CODE)]
    return checksums.with_checksum({**result, ID: id, FILES: checksums.sums_of(folder, names) | snapshots})


def damage(folder: Path, memory: Memory | None = None) -> str:
    """What is wrong with the first damaged file of a run that has a result; empty if none is. Without a memory, every
    file is hashed. Nothing is known of a run without checksums whose result can be read."""
    check = partial(_damage, folder)
    return check() if memory is None else memory.checked(folder, check, but=CHANGING)


def has_checksums(folder: Path) -> bool:
    result = _read(folder / files.RESULT)
    return result is not None and bool({ID, FILES, checksums.KEY} & result.keys())


def _damage(folder: Path) -> str:
    result = _read(folder / files.RESULT)
    if result is None or not _is_result(result):
        return f"{files.RESULT} cannot be read"
    if not {ID, FILES, checksums.KEY} & result.keys():
        return "" if (folder / files.RUN).is_file() else f"{files.RUN} is missing"
    times = _read(folder / files.TIMES)
    if times is None:
        return f"{files.TIMES} is missing or cannot be read"
    for data, name in ((result, files.RESULT), (times, files.TIMES)):
        if why := _altered(data, name, folder.name):
            return why
    sums = {**times[FILES], **result[FILES]}
    strange = [name for name in _names(folder / files.SNAPSHOTS) if _is_snapshot(name)]
    strange = [name for name in strange if f"{files.SNAPSHOTS}/{name}" not in sums]
    if strange:
        return f"{files.SNAPSHOTS}/{strange[0]} is not a file of this run"
    return checksums.damage(folder, sums)


def _altered(data: dict[str, Any], name: str, id: str) -> str:
    """What is wrong with a file that names its run and lists checksums."""
    if checksums.KEY not in data or checksums.is_altered(data) or not isinstance(data.get(FILES), dict):
        return f"{name} does not match its checksum"
    return "" if data.get(ID) == id else f"{name} is of run {data.get(ID)}"


def _is_snapshot(name: str) -> bool:
    step = name.removeprefix("step-").partition(".")[0]
    return step.isdecimal() and name == files.snapshot(int(step))


def _is_result(data: dict[str, Any]) -> bool:
    try:
        Result.from_json(data)
    except DAMAGED:
        return False
    return True


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _names(folder: Path) -> list[str]:
    """The files of a folder; those of writers at work begin with a dot."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return []
