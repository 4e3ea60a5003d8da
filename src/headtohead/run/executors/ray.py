"""Train runs on Ray: one task per run. If a worker or node dies, Ray starts the task again, and the run continues from
its last checkpoint.

Nodes that see the store train in it. Others train in a local folder and send back its files when the run ends or is
stopped; the files are sent along when it continues.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headtohead.data.cache import on_stderr
from headtohead.errors import InputError, needs_extra
from headtohead.run import files, store
from headtohead.run.events import Event, Finished, Stopped
from headtohead.run.executors.local import read_in_worker, refuse_in_worker
from headtohead.run.executors.loop import ATTEMPTS, Loop, Message, NotSaved, WorkerDied, runs_to_train
from headtohead.run.session import Options, Stop, execute, stop_on_signals
from headtohead.run.store import Record
from headtohead.spec import code_of
from headtohead.spec.stored_code import Copies
from headtohead.training.arm import RunSpec

STOPPING = 20.0  # seconds that runs have to save themselves when the user stops


def execute_on_ray(
    specs: list[RunSpec], where: Path, options: Options, *, address: str | None, jobs: int, threads: int
) -> Iterator[Event]:
    """Train every run as a task of a running cluster, or of a local one that trains `jobs` at a time."""
    refuse_in_worker()
    specs = yield from runs_to_train(specs, where)
    if not specs:
        return
    ray = _ray(own=address is None)
    with _connected(ray, address, jobs * threads), stop_on_signals() as stop, _marker(where) as marker:
        from ray.util.queue import Queue

        events = Queue(actor_options={"num_cpus": 0})
        task = ray.remote(num_cpus=threads, max_retries=ATTEMPTS - 1, retry_exceptions=False)(_train)
        yield from Loop(_Tasks(ray, task, where, marker, options, events), where, stop).run(specs)


@dataclass(frozen=True)
class _Answer:
    """What a task returns."""

    started: Event | None  # also sent as an event, which may arrive late
    ended: Event | None  # None: another process is training the run
    files: bytes | None = None  # of the run, where its node does not see the store


@dataclass
class _Tasks:
    ray: Any
    task: Any
    where: Path
    marker: Path
    options: Options
    events: Any
    runs: dict[Any, str] = field(default_factory=dict)  # by task, queued or in training
    started: set[str] = field(default_factory=set)
    deadline: float = math.inf  # for saving, once the user has stopped
    capacity: float = math.inf  # Ray queues what it has no processor for

    def start(self, spec: RunSpec) -> None:
        saved = _saved(Record.at(self.where, spec.id).folder)
        run = (spec.to_json(), code_of(spec))  # a node may see neither the session nor the user's file
        context = (str(self.where.resolve()), str(self.marker), self.options, self.events, saved)
        self.runs[self.task.remote(*run, *context)] = spec.id

    def poll(self) -> Iterator[Message]:
        if not self.runs:
            time.sleep(0.1)
            return
        ended = list(self.ray.wait(list(self.runs), timeout=0.2)[0])
        yield from self._training()
        for task in ended:
            yield from self._end(task)
        if time.monotonic() > self.deadline:
            for task in list(self.runs):
                yield self._cancelled(self.runs.pop(task))

    def stop(self) -> None:
        """A run in training saves itself and ends; a queued one is dropped."""
        self.deadline = time.monotonic() + STOPPING
        for task in self.runs:
            self.ray.cancel(task, force=False)

    def close(self) -> None: ...

    def _training(self) -> Iterator[Message]:
        """Events of runs in training. Those that arrive after the end of their run are left out."""
        events: list[Event] = []
        with contextlib.suppress(Exception):  # a lost event must not cost a run
            events = self.events.get_nowait_batch(self.events.qsize())
        training = set(self.runs.values())
        for event in events:
            if event.id in training:
                self.started.add(event.id)
                yield Message(event.id, event)

    def _end(self, task: Any) -> Iterator[Message]:
        run, known = self.runs.pop(task), self.ray.exceptions
        try:
            answer: _Answer = self.ray.get(task)
        except known.TaskCancelledError:
            yield self._cancelled(run)
        except known.RayTaskError as error:
            yield Message(run, error.cause if isinstance(error.cause, Exception) else error)
        except (known.WorkerCrashedError, known.NodeDiedError, known.ObjectLostError):
            stopping = self.deadline < math.inf
            yield Message(run, NotSaved() if stopping else WorkerDied(f"its worker on Ray died {ATTEMPTS} times"))
        else:
            if answer.started is not None and run not in self.started:
                self.started.add(run)
                yield Message(run, answer.started)
            ended = answer.ended and _stored(answer.ended, answer.files, self.where)
            yield Message(run, store.Busy() if ended is None else ended)

    def _cancelled(self, run: str) -> Message:
        return Message(run, NotSaved() if run in self.started else None)


def _stored(ended: Event, bundle: bytes | None, where: Path) -> Event | None:
    """Put the files that a node sent into the store. Returns None if another process is training the run here."""
    if bundle is None or not isinstance(ended, Finished | Stopped):
        return ended
    record = Record.at(where, ended.id)
    try:
        with store.lock(record.folder):
            if not record.has_ended:
                _unpack(bundle, record.folder)
    except store.Busy:
        return None
    return Finished(ended.id, str(record.folder)) if isinstance(ended, Finished) else ended


# -- on a node ---------------------------------------------------------------------------------------------------------


def _train(
    spec: Any, code: Copies, where: str, marker: str, options: Options, events: Any, saved: bytes | None
) -> _Answer:
    """Train a run; `saved` are the files that an earlier call left of it."""
    import torch

    with _stop_when_cancelled() as stop:
        run = read_in_worker(spec, code)
        torch.set_num_threads(run.threads)
        if Path(marker).is_file():
            return _answer(run, Path(where), options, events, stop)
        here = Path(tempfile.gettempdir()) / "h2h-on-ray" / Path(marker).name
        record = Record.at(here, run.id)
        if saved is not None and not record.exists:
            _unpack(saved, record.folder)
        answer = _answer(run, here, options, events, stop)
        if answer.ended is not None:
            answer = replace(answer, files=_bundle(record.folder))
            shutil.rmtree(record.folder, ignore_errors=True)
        return answer


def _answer(run: RunSpec, where: Path, options: Options, events: Any, stop: Stop) -> _Answer:
    started, sent = None, 0.0
    try:
        for event in execute(run, where, options, stop):
            if isinstance(event, Finished | Stopped):
                return _Answer(started, event)
            started = started or event
            if time.monotonic() - sent > 1:  # one actor serves the queue of all runs
                sent = time.monotonic()
                # without waiting for an answer: while a task waits, Ray gives its processor to another
                events.actor.put_nowait.remote(event)
    except store.Busy:
        return _Answer(None, None)
    raise AssertionError("a run ends with an event")


@contextlib.contextmanager
def _stop_when_cancelled() -> Iterator[Stop]:
    """Ray cancels a task with a KeyboardInterrupt, which would lose the steps since the last checkpoint."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, lambda *_: setattr(stop, "asked", True))
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


# -- sending a run's files ---------------------------------------------------------------------------------------------

LAST = (files.CHECKPOINT, files.RESULT)  # written last, because they mark the others as complete
MEMBER = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*", re.ASCII)  # a file of a run, or of a folder in it; never ../


def _bundle(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != files.LOCK and not file.name.startswith("."):  # unfinished
                bundle.write(file, file.relative_to(folder).as_posix())
    return buffer.getvalue()


def _unpack(content: bytes, folder: Path) -> None:
    with store.one_line_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        names = sorted(bundle.namelist(), key=lambda n: n in LAST)
        for name in names:
            if not MEMBER.fullmatch(name):
                raise InputError(f"a Ray node sent a file named {name!r}, which no run has: do not use this cluster")
        for name in names:
            store.write_whole(folder / name, bundle.read(name))


def _saved(folder: Path) -> bytes | None:
    """The files of a run with a checkpoint."""
    with contextlib.suppress(OSError):  # another process is training the run, so it is not started here
        if (folder / files.CHECKPOINT).is_file():
            return _bundle(folder)
    return None


# -- the cluster -------------------------------------------------------------------------------------------------------


def _ray(own: bool) -> Any:
    # report no usage, and leave the variables of accelerators alone
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if own and "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:  # Ray reads them when it is imported
        os.environ["RAY_AUTH_MODE"] = "token"
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError:
        raise needs_extra("--on ray", "ray") from None
    return ray


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, jobs: int) -> Iterator[None]:
    if ray.is_initialized():  # by the caller, who also ends it
        yield
        return
    if address is not None:
        _check_address(address)
    quiet = {"log_to_driver": False, "logging_level": "error", "configure_logging": True}
    try:
        if address is None:
            with _on_loopback(ray):
                ray.init(address="local", num_cpus=jobs, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"no Ray cluster at {address or 'this machine'}: {reason}; start one with `ray start --head`, "
            "and give its token if it needs one"
        ) from None
    try:
        if exposed := _exposed(ray, address):
            on_stderr(f"warning: {exposed}")
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _on_loopback(ray: Any) -> Iterator[None]:
    """Let a cluster that starts in this context listen on 127.0.0.1 only: Ray does so where it supports no clusters,
    as on macOS. Elsewhere it listens on every interface, whatever address `ray.init` is given."""
    constants = ray._private.ray_constants
    before = getattr(constants, "ENABLE_RAY_CLUSTER", None)
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _exposed(ray: Any, address: str | None) -> str:
    """Who can run code on the cluster besides the user; empty if that takes a token or an account here."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        return ""
    if address is not None:
        return (
            f"the Ray cluster at {address} is used without a token, so everyone who reaches its ports can run code "
            "on it: start it and this command with RAY_AUTH_MODE=token"
        )
    if ray.util.get_node_ip_address() == "127.0.0.1":
        return ""
    return "this version of Ray listens on all interfaces without a token: pip install -U ray, or use --jobs"


def _check_address(address: str) -> None:
    """Refuse an address where no process answers; Ray itself would wait for minutes."""
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
    """A file that tells a node whether it sees the store."""
    with store.one_line_write_errors(where):
        where.mkdir(parents=True, exist_ok=True)
    path = where.resolve() / f".seen-{uuid.uuid4().hex}"
    store.write_whole(path, "")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
