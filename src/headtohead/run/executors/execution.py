"""Where and how runs are trained: in this process, in a pool of processes, or on Ray, with the same events and bits."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headtohead.errors import InputError, nearest
from headtohead.run.events import Event, NotBegun, Stopped
from headtohead.run.executors.local import execute_many
from headtohead.run.machine import check_threads, choose_device
from headtohead.run.session import Options
from headtohead.run.trackers import Track
from headtohead.training.arm import RunSpec

Executor = Callable[[list[RunSpec], Path], Iterator[Event]]


def train_all(execute: Executor, specs: list[RunSpec], home: Path) -> Generator[Event, None, bool]:
    """Yield the events of these runs. Returns False, early, if the user stopped."""
    for event in execute(specs, home):
        yield event
        if isinstance(event, Stopped | NotBegun):
            return False
    return True


def read_duration(text: str | float) -> float:
    """Seconds of a time such as 90s, 30min, 2h or 1.5h."""
    units = {"s": 1, "min": 60, "m": 60, "h": 3600}
    found = re.fullmatch(r"\s*([0-9.]+)\s*(s|min|m|h)\s*", str(text)) if isinstance(text, str) else None
    try:
        seconds = float(text) if found is None else float(found[1]) * units[found[2]]
    except ValueError:
        raise InputError(f"a time is a number with s, min or h, such as 30min, not '{text}'") from None
    if not 0 < seconds < math.inf:
        raise InputError(f"a time is above zero, not '{text}'")
    return seconds


@dataclass(frozen=True)
class Execution:
    """Where and how runs are trained. Only `device` and `threads` are part of a run's id."""

    jobs: int | None = None  # runs at a time; None: one per core
    on: str = "local"  # local, ray (a cluster of this machine), or ray:ADDRESS
    device: str = "auto"  # auto, cpu, cuda or mps
    threads: int = 1  # of each run
    save_every: float = 30.0  # seconds between checkpoints
    log_to: str | None = None  # trackio, tensorboard or wandb
    budget: float | None = None  # seconds; a sequential study adds no pairs that would take longer

    def checked(self) -> Execution:
        """Return a copy with the device and the number of jobs of this machine. Refuses what it does not have."""
        check_threads(self.threads)
        self.options()
        return dataclasses.replace(self, device=choose_device(self.device), jobs=self.jobs or os.cpu_count() or 1)

    def options(self) -> Options:
        return Options(save_every=self.save_every, track=Track(self.log_to) if self.log_to is not None else None)

    def executor(self, *, keep_going: bool = True) -> Executor:
        """A function that trains runs and yields their events. With `keep_going`, a run that fails is noted and the
        others continue. Without it, the error is raised."""
        jobs, kind, address = self.jobs or os.cpu_count() or 1, *self.on.partition(":")[::2]
        if kind == "ray":
            from headtohead.run.executors.ray import execute_on_ray

            return partial(
                execute_on_ray, options=self.options(), address=address or None, jobs=jobs, threads=self.threads
            )
        if self.on != "local":
            raise InputError(f"--on {self.on}: {nearest(self.on, ('local', 'ray', 'ray:ADDRESS'))}")
        return partial(execute_many, jobs=jobs, options=self.options(), keep_going=keep_going)
