"""Train runs to their end: `h2h train`, `h2h finetune` and `h2h.train()` call `train_runs`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headtohead.run import store
from headtohead.run.events import Event, Failed, Finished, NotBegun, Stopped
from headtohead.run.executors.execution import Execution
from headtohead.run.load import read_record
from headtohead.run.machine import choose_device
from headtohead.training.arm import Arm, RunSpec, run_specs


def specs_of(arm: Arm, seeds: Iterable[int], execution: Execution) -> list[RunSpec]:
    """The runs of an arm with these seeds, on a device of this machine."""
    how = execution.checked()
    return list(run_specs(arm, seeds, how.device, how.threads).values())


def spec_to_resume(name: str, home: Path | None = None) -> RunSpec:
    """The spec of a run that was stopped, by its id, prefix or `latest`."""
    record = store.find_run(name, home, ended=False)
    spec = read_record(record)
    if spec.id != record.id:
        raise store.Damaged(f"{record.folder} holds run {spec.id}: give it that name, or set it aside and train again")
    choose_device(spec.device)  # refuses a device that this machine does not have
    return spec


def missing(specs: Iterable[RunSpec], home: Path | None = None) -> int:
    """How many of the runs are not complete in the store."""
    where = home or store.home()
    return sum(not store.Record.at(where, spec.id).has_ended for spec in specs)


def train_runs(
    specs: list[RunSpec],
    execution: Execution | None = None,
    *,
    home: Path | None = None,
    listen: Callable[[Event], object] = lambda _: None,
) -> list[Event]:
    """Train the runs that the store lacks. Returns how each run ended, in the order of the seeds: Finished, Stopped, or
    one NotBegun for all that were not started. An error of one run is raised."""
    execute = (execution or Execution()).executor(keep_going=False)
    ends: list[Event] = []
    for event in execute(specs, home or store.home()):
        listen(event)
        if isinstance(event, Finished | Stopped | Failed) or (isinstance(event, NotBegun) and event.runs):
            ends.append(event)
    seeds = {spec.id: spec.seed for spec in specs}
    return sorted(ends, key=lambda event: seeds.get(event.id, math.inf))


def end_to_json(event: Event, seeds: dict[str, int]) -> dict[str, Any]:
    """How a run ended, with its result, for --json."""
    if isinstance(event, Finished):
        record = event.record
        seed = seeds[event.id]
        ended, times = record.require_result().to_json(), record.times.to_json()
        return {"run": event.id, "seed": seed, "folder": event.folder, **ended, "times": times}
    if isinstance(event, NotBegun):
        return {"run": None, "status": "not begun", "runs": event.runs}
    assert isinstance(event, Stopped)
    seed = seeds[event.id]
    return {"run": event.id, "seed": seed, "status": "stopped", "steps": event.done, "of": event.steps}


def exit_code(ends: list[Event]) -> int:
    if any(isinstance(event, Stopped | NotBegun) for event in ends):
        return 130
    finished = [event.record.result for event in ends if isinstance(event, Finished)]
    return 1 if any(r and not r.is_complete for r in finished) else 0
