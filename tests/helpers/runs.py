"""Tiny runs: their settings, training them, and the files that must be the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from headtohead import Arm, Files, RunSpec
from headtohead.disk import checksums
from headtohead.run import seal
from headtohead.run.events import Event, Finished
from headtohead.run.session import Options, Stop, _Session, execute
from headtohead.run.store import Record
from headtohead.spec.streams import stream

SMALL = ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4"]
SMALL += ["evaluate.train=16", "evaluate.along=16"]  # most of a short run's time goes by looking at it
SMALL_OPTIONS = [part for setting in SMALL for part in ("--set", setting)]

LM = ["train", "lm", *SMALL_OPTIONS, "--steps", "2"]
CLASSIFIER = ["train", "classifier", *SMALL_OPTIONS, "--steps", "3"]

RESULTS = ("model.safetensors", "metrics.jsonl", "result.json", "items.npz", "run.json", "tokenizer.json")


def run_on(path: Path, *settings: str, seed: int = 0) -> RunSpec:
    """A tiny language model on a text; later settings override."""
    return RunSpec(arm=Arm.of("lm", Files(path=str(path))).settings([*SMALL, *settings]), seed=seed).resolved()


def train(spec: RunSpec, home: Path, save_every: float = 1e9) -> list[Event]:
    return list(execute(spec, home, Options(save_every=save_every)))


def trained_record(spec: RunSpec, home: Path) -> Record:
    """Train a run to its end; its record in the store."""
    ended = train(spec, home)[-1]
    assert isinstance(ended, Finished)
    return ended.record


def events_of(kind: type, events: list[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def results(folder: Path) -> dict[str, Any]:
    """The files that must be the same bits however the run was trained, by name."""
    files = [*(folder / name for name in RESULTS), *(folder / "snapshots").glob("*")]
    return {f.name: f.read_bytes() for f in files if f.exists()}


def give_up(spec: RunSpec, folder: Path, step: int) -> None:
    """Leave a run as a kill would: save after every step, and end it once a line of that step is written."""
    events = _Session(spec, folder, Options(save_every=0)).run(Stop())
    for _ in events:
        if reached(folder) >= step:
            break
    events.close()


def without_checksums(folder: Path) -> Path:
    """The run as an older version wrote it, so that a test may edit its files."""
    for name in ("result.json", "times.json"):
        data = json.loads((folder / name).read_text())
        data = {key: value for key, value in data.items() if key not in ("id", "files", "checksum")}
        (folder / name).write_text(json.dumps(data, indent=2))
    return folder


def reached(folder: Path) -> int:
    """The last step in metrics.jsonl, −1 before any."""
    try:
        lines = (folder / "metrics.jsonl").read_bytes().split(b"\n")[:-1]
        return int(json.loads(lines[-1])["step"]) if lines else -1
    except FileNotFoundError:
        return -1


class AskedInStep(Stop):
    """A stop request that arrives during this step: the step's dropout stream is then torch's seed."""

    def __init__(self, step: int) -> None:
        self.stream = stream(0, "dropout", step)

    @property
    def asked(self) -> bool:  # type: ignore[override]
        return torch.initial_seed() == self.stream


def resealed(folder: Path) -> Path:
    """The run with checksums that match its files again, as somebody writes them who changes files on purpose."""
    without_checksums(folder)
    times, result = (json.loads((folder / name).read_text()) for name in ("times.json", "result.json"))
    snapshots = [f"snapshots/{path.name}" for path in sorted((folder / "snapshots").glob("step-*"))]
    (folder / "times.json").write_text(json.dumps(seal.times_of(folder, folder.name, times)))
    sealed = seal.result_of(folder, folder.name, result, checksums.sums_of(folder, snapshots))
    (folder / "result.json").write_text(json.dumps(sealed))
    return folder
