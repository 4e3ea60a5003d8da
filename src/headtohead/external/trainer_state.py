"""Reads trainer_state.json, which transformers.Trainer writes into every checkpoint.

The seed is in the model card (README.md) if the Trainer wrote one. training_args.bin also has it, but it is a pickle,
and reading a pickle can run any code, so it is not opened.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from headtohead.data.stored_json import parsed
from headtohead.errors import InputError
from headtohead.external.sources import Source, read_text
from headtohead.external.values import Point, RunLog, number_of

STATE = "trainer_state.json"
NOT_METRICS = {"step", "epoch"}


def read_run(source: Source) -> RunLog:
    path = newest_state(source.path) if source.path.is_dir() else source.path
    state = _state(path)
    curves: dict[str, list[Point]] = {}
    for n, entry in enumerate(state["log_history"]):
        if not isinstance(entry, dict):
            raise InputError(f"{path}: entry {n + 1} of log_history is no object: the file is damaged")
        step = number_of(entry.get("step"))
        for metric, value in entry.items():
            number = number_of(value)
            if metric not in NOT_METRICS and number is not None and not isinstance(value, str):
                curves.setdefault(metric, []).append((float(n) if step is None else step, number))
    name = source.path.name if source.path.is_dir() else path.name
    if path.name == STATE and not source.path.is_dir():  # the file itself was named: its folder says which run it is
        folder = path.resolve().parent
        name = folder.parent.name if folder.name.startswith("checkpoint-") else folder.name
    else:
        name = source.name
    return RunLog(name, source.shown, curves, _config(source.path if source.path.is_dir() else path.parent))


def newest_state(folder: Path) -> Path:
    """The state of the run's end: of the folder itself, or of the checkpoint with the most steps."""
    found = [*folder.glob(STATE), *folder.glob(f"checkpoint-*/{STATE}")]
    return max(found, key=lambda path: (_state(path).get("global_step") or 0, path.parent == folder))


def _state(path: Path) -> dict[str, Any]:
    try:
        state = parsed(read_text(path))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not JSON: it is damaged or was cut off") from None
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise InputError(f"{path} has no log_history: give a trainer_state.json that transformers.Trainer wrote")
    return state


def _config(folder: Path) -> dict[str, Any]:
    """The seed in the model card of the run."""
    for card in (folder / "README.md", folder.parent / "README.md"):
        if folder.parent == card.parent and not folder.name.startswith("checkpoint-"):
            break
        if card.is_file():
            found = re.search(r"^- seed: (\d+)\s*$", card.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
            if found:
                return {"seed": found[1]}
    return {}
