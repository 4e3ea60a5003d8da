"""Runs on Ray: one task a run, one thread a task. A worker or node that dies costs the steps since the last checkpoint:
Ray starts the task again, and the run goes on where it was saved.

Nodes that see the store train in it. Others train in a folder of their own and send back what they have when the run
ends, by itself or because the user stops; when it goes on, that is sent along.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.arm import RunSpec
from headtohead.errors import InputError, Unavailable
from headtohead.runs import (
    Event,
    Finished,
    NotBegun,
    Options,
    Stop,
    Stopped,
    Waiting,
    execute,
    note_failure,
    stop_politely,
)
from headtohead.workers import LIVES, PATIENCE, not_in_a_worker, read_in_worker, still_to_train

STOPPING = 20.0  # seconds that runs are given to save themselves when the user stops


def execute_on_ray(
    specs: list[RunSpec], where: Path, options: Options, *, address: str | None, jobs: int, threads: int
) -> Iterator[Event]:
    """Every run as a task of a running cluster, or of a local one that trains `jobs` at a time."""
    not_in_a_worker()
    specs = yield from still_to_train(specs, where)
    if not specs:
        return
    ray = _ray()
    with _connected(ray, address, jobs * threads), stop_politely() as stop, _marker(where) as marker:
        from ray.util.queue import Queue

        events = Queue(actor_options={"num_cpus": 0})
        task = ray.remote(num_cpus=threads, max_retries=LIVES - 1, retry_exceptions=False)(_train)
        yield from _Tasks(ray, task, where, marker, options, events).follow(specs, stop)


@dataclass(frozen=True)
class _Told:
    """What a task gives back."""

    started: Event | None  # said as an event too, which may be late
    ended: Event | None  # none if another process has the run
    files: bytes | None = None  # of the run, where its node does not see the store


@dataclass
class _Tasks:
    ray: Any
    task: Any
    where: Path
    marker: Path
    options: Options
    events: Any
    todo: dict[Any, RunSpec] = field(default_factory=dict)  # by the task that trains it, or waits to
    later: dict[str, tuple[float, RunSpec]] = field(default_factory=dict)  # another process has it: when to ask again
    begun: set[str] = field(default_factory=set)
    deaths: Counter[str] = field(default_factory=Counter)
    stopping: bool = False
    not_begun: list[RunSpec] = field(default_factory=list)  # when the user stopped
    lost: list[RunSpec] = field(default_factory=list)  # begun, and not saved when the user stopped

    def follow(self, specs: list[RunSpec], stop: Stop) -> Iterator[Event]:
        try:
            for spec in specs:
                self._start(spec)
            while self.todo or self.later:
                if stop.asked:
                    yield from self._stop()
                    return
                for name in [n for n, (when, _) in self.later.items() if when < time.monotonic()]:
                    self._start(self.later.pop(name)[1])
                done = self._done()
                yield from self._heard()
                for ref in done:
                    yield from self._end_of(ref)
        except GeneratorExit:  # whoever listened has gone
            if not self.stopping:
                self._let_save()
            raise

    def _start(self, spec: RunSpec) -> None:
        held = _saved(self.where / "runs" / spec.id)
        given = (spec.to_json(), str(self.where.resolve()), str(self.marker), self.options, self.events, held)
        self.todo[self.task.remote(*given)] = spec

    def _done(self) -> list[Any]:
        if self.todo:
            return list(self.ray.wait(list(self.todo), timeout=0.2)[0])
        time.sleep(0.1)
        return []

    def _heard(self) -> Iterator[Event]:
        """What the tasks said. It may come after the end of the run it tells of, and is left out then."""
        said: list[Event] = []
        with contextlib.suppress(Exception):  # no event is worth a run
            said = self.events.get_nowait_batch(self.events.qsize())
        training = {spec.id for spec in self.todo.values()}
        for event in said:
            if event.id in training:
                self.begun.add(event.id)
                yield event

    def _end_of(self, ref: Any) -> Iterator[Event]:
        spec, known = self.todo.pop(ref), self.ray.exceptions
        try:
            told: _Told = self.ray.get(ref)
        except known.TaskCancelledError:
            (self.lost if spec.id in self.begun else self.not_begun).append(spec)
            return
        except known.RayTaskError as error:
            yield note_failure(self.where, spec, error.cause if isinstance(error.cause, Exception) else error)
            return
        except (known.WorkerCrashedError, known.NodeDiedError, known.ObjectLostError):
            self.deaths[spec.id] += 1
            if self.stopping:
                self.lost.append(spec)
            elif self.deaths[spec.id] < LIVES:
                self._start(spec)
            else:
                yield note_failure(self.where, spec, Unavailable(f"its worker on Ray died {LIVES} times"))
            return
        if told.started is not None and spec.id not in self.begun:
            self.begun.add(spec.id)
            yield told.started
        home = told.ended and _brought_home(told.ended, told.files, self.where)
        if home is not None:
            yield home
        elif self.stopping:
            self.not_begun.append(spec)
        else:
            yield Waiting(spec.id)
            self.later[spec.id] = (time.monotonic() + PATIENCE, spec)

    def _stop(self) -> Iterator[Event]:
        events = self._let_save()
        if self.lost:
            raise Unavailable(
                f"stopped, but {len(self.lost)} of the runs on Ray did not save themselves within {STOPPING:.0f} s: "
                "they go on from their last checkpoint when you give the same command again"
            )
        yield from sorted(events, key=lambda event: isinstance(event, Stopped))  # who hears of a stop may go
        if self.not_begun:
            yield NotBegun(len(self.not_begun))

    def _let_save(self) -> list[Event]:
        """A run in training saves itself and ends, one that waits for a processor is dropped: their answers tell which
        is which."""
        self.stopping = True
        for ref in self.todo:
            self.ray.cancel(ref, force=False)
        events, end = list[Event](), time.monotonic() + STOPPING
        while self.todo and time.monotonic() < end:
            done = self._done()
            events += self._heard()
            for ref in done:
                events += self._end_of(ref)
        for spec in self.todo.values():
            (self.lost if spec.id in self.begun else self.not_begun).append(spec)
        self.not_begun += [spec for _, spec in self.later.values()]
        return events


def _brought_home(ended: Event, files: bytes | None, where: Path) -> Event | None:
    """None if another process has begun to train it here."""
    if files is None or not isinstance(ended, Finished | Stopped):
        return ended
    folder = where / "runs" / ended.id
    try:
        with store.lock(folder):
            if not (folder / "result.json").is_file():
                _unpack(files, folder)
    except store.Busy:
        return None
    return Finished(ended.id, str(folder)) if isinstance(ended, Finished) else ended


# -- on a node ---------------------------------------------------------------------------------------------------------


def _train(spec: Any, where: str, marker: str, options: Options, events: Any, held: bytes | None) -> _Told:
    """`held` is what an earlier call saved of the run."""
    import torch

    with _cancelled_politely() as stop:
        run = read_in_worker(spec)
        torch.set_num_threads(run.threads)
        if Path(marker).is_file():
            return _told(run, Path(where), options, events, stop)
        here = Path(tempfile.gettempdir()) / "h2h-on-ray" / Path(marker).name
        folder = here / "runs" / run.id
        if held is not None and not (folder / "run.json").is_file():
            _unpack(held, folder)
        told = _told(run, here, options, events, stop)
        if told.ended is not None:
            told = replace(told, files=_bundle(folder))
            shutil.rmtree(folder, ignore_errors=True)  # it goes home
        return told


def _told(run: RunSpec, where: Path, options: Options, events: Any, stop: Stop) -> _Told:
    started, said = None, 0.0
    try:
        for event in execute(run, where, options, stop):
            if isinstance(event, Finished | Stopped):
                return _Told(started, event)
            started = started or event
            if time.monotonic() - said > 1:  # the queue is one actor for all
                said = time.monotonic()
                # sent and forgotten: while a task waits for an answer, Ray gives its processor to another
                events.actor.put_nowait.remote(event)
    except store.Busy:
        return _Told(None, None)
    raise AssertionError("a run ends with an event")


@contextlib.contextmanager
def _cancelled_politely() -> Iterator[Stop]:
    """Ray cancels a task with a KeyboardInterrupt, which would cost what was done since the last checkpoint."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, lambda *_: setattr(stop, "asked", True))
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


# -- a run's files on their way ----------------------------------------------------------------------------------------

LAST = ("checkpoint.safetensors", "result.json")  # they tell what the others hold


def _bundle(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != "LOCK":
                bundle.write(file, file.relative_to(folder).as_posix())
    return buffer.getvalue()


def _unpack(files: bytes, folder: Path) -> None:
    with store.room_for(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(files)) as bundle:
        for name in sorted(bundle.namelist(), key=lambda n: n in LAST):
            store.write_whole(folder / name, bundle.read(name))


def _saved(folder: Path) -> bytes | None:
    """What the store has of a run that was begun."""
    with contextlib.suppress(OSError):  # another process trains it: it will not be begun
        if (folder / "checkpoint.safetensors").is_file():
            return _bundle(folder)
    return None


# -- the cluster -------------------------------------------------------------------------------------------------------


def _ray() -> Any:
    # Ray would otherwise copy the folder it is started from to every worker, and report how it is used
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise Unavailable("Ray is not installed: pip install 'headtohead[ray]'") from None
    return ray


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, jobs: int) -> Iterator[None]:
    if ray.is_initialized():  # by whoever calls us: theirs to end
        yield
        return
    if address is not None:
        _answers(address)
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    try:
        if address is None:
            ray.init(address="local", num_cpus=jobs, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(
            f"no Ray cluster at {address or 'this machine'}: {said}; start one with `ray start --head`"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _answers(address: str) -> None:
    """Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"ray:{address}: give HOST:PORT, as `ray start --head` prints it")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise InputError(
            f"no Ray cluster at {address} ({error.strerror or error}): start one with `ray start --head`"
        ) from None


@contextlib.contextmanager
def _marker(where: Path) -> Iterator[Path]:
    """A file by which a node knows whether it sees the store."""
    with store.room_for(where):
        where.mkdir(parents=True, exist_ok=True)
    path = where.resolve() / f".seen-{uuid.uuid4().hex}"
    store.write_whole(path, "")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
