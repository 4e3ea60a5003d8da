"""The loop that trains many runs: it starts them, passes on their events, retries runs whose worker died, and stops
them when the user asks. A backend trains them: in this process, in worker processes, or on Ray."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from headtohead.errors import Unavailable
from headtohead.run import store
from headtohead.run.events import Event, Failed, Finished, NotBegun, Stopped, Waiting
from headtohead.run.session import Stop, note_failure
from headtohead.run.store import Record
from headtohead.spec import code_of
from headtohead.training.arm import RunSpec

ATTEMPTS = 3  # of a run whose worker dies
RETRY_SECONDS = 0.5  # until a run that another process is training is tried again


class WorkerDied(Unavailable):
    """The worker of a run died. The message is for the user, after the last attempt."""


class NotSaved(Unavailable):
    """A run was stopped, but could not save itself."""


class Message(NamedTuple):
    """What a backend reports about a run. The run has ended unless the content is an event of its training."""

    run: str
    content: Event | Exception | None  # None: it was asked to stop before it started


class Backend(Protocol):
    """Where runs are trained."""

    capacity: float  # runs that it takes at a time

    def start(self, spec: RunSpec) -> None:
        """Start a run, or queue it."""

    def poll(self) -> Iterable[Message]:
        """Wait a fraction of a second for messages, and return them."""

    def stop(self) -> None:
        """Ask the runs to save themselves and to end."""

    def close(self) -> None:
        """End all workers. Runs that are still trained save themselves, or continue from their last checkpoint."""


def runs_to_train(specs: list[RunSpec], where: Path) -> Generator[Event, None, list[RunSpec]]:
    """Return the runs that the store lacks, and report the others as finished. Refuses a class that no worker could
    load."""
    for spec in specs:
        code_of(spec)
    missing = []
    for spec in specs:
        record = Record.at(where, spec.id)
        if record.has_ended:
            store.clear_ended(record.folder)
            yield Finished(spec.id, str(record.folder), already=True)
            continue
        if record.has_result:  # damaged; set aside here, because not all workers see this store
            with store.lock(record.folder):
                store.make_room(record.folder)
        missing.append(spec)
    return missing


@dataclass
class Loop:
    """Trains runs with a backend. With `keep_going`, a run that fails is noted, and a run that another process is
    training is waited for. Without it, either raises an error."""

    backend: Backend
    where: Path
    stop: Stop
    keep_going: bool = True
    waiting: deque[RunSpec] = field(default_factory=deque)
    running: dict[str, RunSpec] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)  # when to try a run of another process again
    deaths: Counter[str] = field(default_factory=Counter)
    unsaved: int = 0

    def run(self, specs: list[RunSpec]) -> Iterator[Event]:
        self.waiting.extend(specs)
        try:
            stopped = False
            while (self.waiting or self.running) and not self.stop.asked:
                self._submit()
                for event in self._events():
                    stopped = stopped or isinstance(event, Stopped)
                    yield event
            if self.stop.asked:
                yield from self._stop(stopped)
        except GeneratorExit:  # the caller has left: the runs save themselves
            for _ in self._last_events():
                pass
            raise
        finally:
            self.backend.close()

    def _submit(self) -> None:
        for _ in range(len(self.waiting)):
            if len(self.running) >= self.backend.capacity:
                return
            spec = self.waiting.popleft()
            if self.not_before.get(spec.id, 0) > time.monotonic():
                self.waiting.append(spec)
            else:
                self.running[spec.id] = spec
                self.backend.start(spec)

    def _stop(self, stopped: bool) -> Iterator[Event]:
        """Stopped events come last, because a caller may leave at the first of them."""
        ends = []
        for event in self._last_events():
            if isinstance(event, Stopped):
                ends.append(event)
            else:
                yield event
        if self.unsaved:
            raise Unavailable(
                f"stopped, but {self.unsaved} of the runs did not save themselves in time: "
                "they continue from their last checkpoint when you give the same command again"
            )
        yield from ends
        if self.waiting or not (ends or stopped):
            yield NotBegun(len(self.waiting))

    def _last_events(self) -> Iterator[Event]:
        if self.running:
            self.backend.stop()
        while self.running:
            yield from self._events()

    def _events(self) -> Iterator[Event]:
        for run, content in self.backend.poll():
            if isinstance(content, Event) and not isinstance(content, Finished | Stopped):
                yield content
            else:
                yield from self._end(self.running.pop(run), content)

    def _end(self, spec: RunSpec, content: Event | Exception | None) -> Iterator[Event]:
        if content is None:
            self.waiting.append(spec)
        elif not isinstance(content, Exception):
            yield content
        elif isinstance(content, NotSaved):
            self.unsaved += 1
        elif isinstance(content, WorkerDied):
            self.deaths[spec.id] += 1
            if self.deaths[spec.id] < ATTEMPTS or self.stop.asked:
                self.waiting.appendleft(spec)
            else:
                yield self._failed(spec, content)
        elif isinstance(content, store.Busy) and self.keep_going:
            yield Waiting(spec.id)
            self.not_before[spec.id] = time.monotonic() + RETRY_SECONDS
            self.waiting.append(spec)
        else:
            yield self._failed(spec, content)

    def _failed(self, spec: RunSpec, error: Exception) -> Failed:
        if not self.keep_going:
            raise error
        return note_failure(self.where, spec, error)
