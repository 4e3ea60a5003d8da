"""Train a study's control shorter and longer, each run with its complete schedule, for outcome/equivalents.py."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Generator, Sequence
from pathlib import Path

from headtohead.errors import InputError
from headtohead.run import store
from headtohead.run.events import Cell, Event, Stage
from headtohead.run.executors.execution import Executor, train_all
from headtohead.run.store import Record
from headtohead.run.studies import StudyRecord, read_study, write_study
from headtohead.training.arm import RunSpec, read_run

HALF_AND_TWICE = (0.5, 2.0)
SEEDS = 4  # the control's gain from more training differs little between seeds


def train_lengths(
    folder: Path, factors: Sequence[float], execute: Executor, warnings: list[str]
) -> Generator[Event | Stage, None, bool]:
    """Train the control of a stored study at these factors of its steps, on its first seeds, and add the runs to
    study.json. `warnings` about the data were shown before. Returns False, early, if the user stopped."""
    home = folder.parent.parent
    runs = length_runs(read_study(folder), factors, home)
    if not any(runs.values()):
        return True
    with store.lock(folder, patience=30):
        record = read_study(folder)
        ids = {name: {seed: spec.id for seed, spec in specs.items()} for name, specs in runs.items()}
        if (lengths := {**record.lengths, **ids}) != record.lengths:
            write_study(folder, dataclasses.replace(record, lengths=lengths))
    control = record.tables[0].control.name
    cells = [
        Cell(f"{control}, {name} × the steps", seed, spec.id, control)
        for name, specs in runs.items()
        for seed, spec in specs.items()
    ]
    yield Stage("lengths", cells, warnings=warnings)
    return (yield from train_all(execute, [spec for specs in runs.values() for spec in specs.values()], home))


def runs_worth(factors: Sequence[float]) -> int:
    """What training at these factors takes, in runs of the control."""
    return math.ceil(SEEDS * sum(factors))


def length_runs(record: StudyRecord, factors: Sequence[float], home: Path) -> dict[str, dict[int, RunSpec]]:
    """The runs by factor and seed, on the first seeds whose control is complete."""
    done = {}
    for seed, run in record.tables[0].control.runs.items():
        found = Record.at(home, run)
        with contextlib.suppress(InputError):  # a damaged result: the table reports it
            if seed in record.seeds and found.result is not None and found.result.is_complete:
                done[seed] = found
    first = dict(list(done.items())[:SEEDS])
    return {f"{k:g}": {seed: _other_length(run, k) for seed, run in first.items()} for k in factors}


def _other_length(run: Record, factor: float) -> RunSpec:
    """The run with `factor` × its steps. Kept snapshots name steps that a shorter run does not have."""
    spec = read_run(run.spec, run.code)
    steps = max(1, round(factor * run.require_result().steps))
    return dataclasses.replace(spec, arm=spec.arm.set("train.steps", steps).set("evaluate.snapshots", ()))
