"""Runs on Ray: one task a run, one thread a task. A worker or node that dies costs the steps since the last checkpoint:
Ray starts the task again, and the run goes on where it was saved.

Nodes that see the store train in it. Others train in a folder of their own and send the finished run back.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import socket
import tempfile
import time
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.arm import RunSpec, read_run
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
from headtohead.workers import LIVES, PATIENCE, still_to_train


def execute_on_ray(
    specs: list[RunSpec], where: Path, options: Options, *, address: str | None, jobs: int, threads: int
) -> Iterator[Event]:
    """Every run as a task of a running cluster, or of a local one with `jobs` processors."""
    specs = yield from still_to_train(specs, where)
    if not specs:
        return
    ray = _ray()
    with _connected(ray, address, jobs), stop_politely() as stop, _marker(where) as marker:
        from ray.util.queue import Queue

        events = Queue(actor_options={"num_cpus": 0})
        task = ray.remote(num_cpus=threads, max_retries=LIVES - 1, retry_exceptions=False)(_train)
        yield from _follow(ray, task, specs, where, marker, options, events, stop)


def _follow(
    ray: Any, task: Any, specs: list[RunSpec], where: Path, marker: Path, options: Options, events: Any, stop: Stop
) -> Iterator[Event]:
    def start(spec: RunSpec) -> Any:
        return task.remote(spec.to_json(), str(where.resolve()), str(marker), options, events)

    todo = {start(spec): spec for spec in specs}
    later: dict[str, tuple[float, RunSpec]] = {}
    deaths = Counter[str]()
    stopped = 0
    while todo or later:
        if stop.asked:
            for ref in todo:
                ray.cancel(ref, force=False)  # a task in training is told; one that waits is dropped
            stopped = len(todo) + len(later)
            break
        for name in [n for n, (when, _) in later.items() if when < time.monotonic()]:
            _, spec = later.pop(name)
            todo[start(spec)] = spec
        done = ray.wait(list(todo), timeout=0.2)[0] if todo else []
        if not todo:
            time.sleep(0.1)
        yield from _heard(events)
        for ref in done:
            spec = todo.pop(ref)
            try:
                ended, files = ray.get(ref)
            except ray.exceptions.RayTaskError as error:
                yield note_failure(where, spec, error.cause if isinstance(error.cause, Exception) else error)
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError):
                deaths[spec.id] += 1
                if deaths[spec.id] < LIVES:
                    todo[start(spec)] = spec
                else:
                    yield note_failure(where, spec, Unavailable(f"its worker on Ray died {LIVES} times"))
            else:
                if ended is None:
                    yield Waiting(spec.id)
                    later[spec.id] = (time.monotonic() + PATIENCE, spec)
                else:
                    yield _brought_home(ended, files, where)
    if stopped:
        yield NotBegun(stopped)


def _heard(events: Any) -> list[Event]:
    with contextlib.suppress(Exception):  # no event is worth a run
        return list(events.get_nowait_batch(events.qsize()))
    return []


def _brought_home(ended: Event, files: bytes | None, where: Path) -> Event:
    if files is None or not isinstance(ended, Finished):
        return ended
    folder = where / "runs" / ended.id
    with store.room_for(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(io.BytesIO(files)) as bundle:
            last = [n for n in bundle.namelist() if n == "result.json"]
            for name in [n for n in bundle.namelist() if n not in last] + last:
                store.write_whole(folder / name, bundle.read(name))
    return Finished(ended.id, str(folder))


# -- on a node ---------------------------------------------------------------------------------------------------------


def _train(spec: Any, where: str, marker: str, options: Options, events: Any) -> tuple[Event | None, bytes | None]:
    """How the run ended, none if another process has it; and its files, where this node does not see the store."""
    import torch

    run = read_run(spec)
    torch.set_num_threads(run.threads)
    if Path(marker).is_file():
        return _ended(run, Path(where), options, events), None
    here = Path(tempfile.gettempdir()) / "h2h-on-ray" / Path(marker).name
    ended = _ended(run, here, options, events)
    if not isinstance(ended, Finished):
        return ended, None
    folder = here / "runs" / run.id
    files = _bundle(folder)
    shutil.rmtree(folder, ignore_errors=True)  # it has gone home
    return ended, files


def _ended(run: RunSpec, where: Path, options: Options, events: Any) -> Event | None:
    try:
        said = 0.0
        for event in execute(run, where, options, Stop()):
            if isinstance(event, Finished | Stopped):
                return event
            if time.monotonic() - said > 1:  # the queue is one actor for all
                said = time.monotonic()
                with contextlib.suppress(Exception):
                    events.put_nowait(event)
    except store.Busy:
        return None
    raise AssertionError("a run ends with an event")


def _bundle(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != "LOCK":
                bundle.write(file, file.relative_to(folder).as_posix())
    return buffer.getvalue()


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
