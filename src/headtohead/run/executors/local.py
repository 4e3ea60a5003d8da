"""Train runs on this machine: in this process, or in a pool of worker processes that train one run after the other.

Workers are not forked from this process, because torch and the tokenizers hold threads that a fork would break. On
Linux they are forked from a process that has only loaded torch, so that many start as fast as one; elsewhere they are
spawned.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

from headtohead.errors import InputError, Unavailable, failure
from headtohead.run.events import Event, Finished, Stopped
from headtohead.run.executors.loop import ATTEMPTS, Loop, Message, WorkerDied, runs_to_train
from headtohead.run.session import Options, Stop, execute, stop_on_signals
from headtohead.spec import code_of, trust
from headtohead.spec.stored_code import Copies
from headtohead.training.arm import RunSpec, read_run

CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
PRELOADED = [
    "headtohead.run.session",
    "headtohead.training.tasks",
    "headtohead.training.arm",
]  # with torch, once for all workers

_MAIN_LOCK = threading.Lock()
_reading = False  # whether a worker is reading a run, and with it perhaps a user's file


def execute_many(
    specs: list[RunSpec], where: Path, jobs: int, options: Options | None = None, keep_going: bool = False
) -> Iterator[Event]:
    """Train runs, `jobs` of them at a time, and yield their events as they happen. With `keep_going`, a run that fails
    is noted, and a run that another process is training is waited for. Without it, either raises an error."""
    refuse_in_worker()
    options = options or Options()
    specs = yield from runs_to_train(specs, where)
    jobs = min(jobs, len(specs))
    with stop_on_signals() as stop:
        backend = _Pool(where, options, jobs) if jobs > 1 else _ThisProcess(where, options, stop)
        yield from Loop(backend, where, stop, keep_going).run(specs)


def refuse_in_worker() -> None:
    """Refuse to train in a worker that imports a user's file for one of its parts."""
    if _reading:
        raise InputError(
            'write `if __name__ == "__main__":` before what trains: workers import this file for its parts'
        )


@dataclass
class _ThisProcess:
    where: Path
    options: Options
    request: Stop
    spec: RunSpec | None = None  # the run in training
    events: Iterator[Event] = iter(())
    capacity: float = 1

    def start(self, spec: RunSpec) -> None:
        self.spec, self.events = spec, execute(spec, self.where, self.options, self.request)

    def poll(self) -> list[Message]:
        if self.spec is None:
            time.sleep(0.1)
            return []
        run = self.spec.id
        try:
            event = next(self.events)
        except Exception as error:  # the run failed: the loop reports it and starts the next one
            self.spec = None
            return [Message(run, error)]
        if isinstance(event, Finished | Stopped):
            self.spec = None
        return [Message(run, event)]

    def stop(self) -> None:
        self.request.asked = True

    def close(self) -> None: ...


# -- worker processes --------------------------------------------------------------------------------------------------


@dataclass
class _Worker:
    process: Any
    pipe: connection.Connection
    spec: RunSpec | None = None  # the run in training

    @classmethod
    def start(cls, where: Path, options: Options) -> _Worker:
        CONTEXT.set_forkserver_preload(PRELOADED)
        ours, theirs = CONTEXT.Pipe()
        # the process that workers are forked from has an older environment
        process = CONTEXT.Process(target=_serve, args=(theirs, where, options, dict(os.environ)), daemon=True)
        with _ignored_sigint(), _without_main(), _one_line_start_errors():
            process.start()
        theirs.close()  # so that the pipe ends when the worker dies
        return cls(process, ours)

    def train(self, spec: RunSpec) -> None:
        self.spec = spec
        with contextlib.suppress(OSError):  # the worker has just died: reading the pipe reports it
            self.pipe.send((spec.to_json(), code_of(spec)))

    def stop(self) -> None:
        """Ask the worker to save its run after the current step and to end."""
        if self.process.pid and self.process.is_alive():
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGTERM)

    def end(self) -> None:
        self.stop()
        with contextlib.suppress(OSError):
            self.pipe.close()
        self.process.join()


@contextlib.contextmanager
def _one_line_start_errors() -> Iterator[None]:
    """Workers are reached by a socket in the folder for temporary files, whose path may not be long."""
    try:
        yield
    except OSError as error:
        if "path too long" not in str(error):
            raise
        folder = tempfile.gettempdir()
        raise Unavailable(f"the path {folder} is too long for sockets: set TMPDIR to a shorter one") from None


@dataclass
class _Pool:
    where: Path
    options: Options
    capacity: float
    workers: list[_Worker] = field(default_factory=list)

    def start(self, spec: RunSpec) -> None:
        worker = next((w for w in self.workers if w.spec is None), None)
        if worker is None:
            worker = _Worker.start(self.where, self.options)
            self.workers.append(worker)
        worker.train(spec)

    def poll(self) -> Iterator[Message]:
        for pipe in connection.wait([w.pipe for w in self.workers], timeout=0.1):
            worker = next(w for w in self.workers if w.pipe is pipe)
            spec = worker.spec
            try:
                content = worker.pipe.recv()
            except (EOFError, OSError):
                self.workers.remove(worker)
                worker.end()
                content = WorkerDied(
                    f"the worker of run {spec and spec.id} died {ATTEMPTS} times (killed, or out of memory): "
                    "give the same command again, it continues from the last checkpoint"
                )
            if content is None or isinstance(content, Finished | Stopped | Exception):
                worker.spec = None
            if spec is not None:
                yield Message(spec.id, content)

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()

    def close(self) -> None:
        self.stop()
        for worker in self.workers:
            worker.end()


@contextlib.contextmanager
def _ignored_sigint() -> Iterator[None]:
    """A process started here ignores Ctrl-C from its first moment, before `_serve` runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """A process started here does not import the user's script, as spawning would: a script that trains at its top
    level, or that was read from a pipe, would fail or train again. Workers do not need it: they get runs as JSON, with
    the source of the user's parts."""
    with _MAIN_LOCK:
        main = sys.modules["__main__"]
        hidden = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
        main.__spec__ = None  # spawning reads it, so it must exist
        if "__file__" in hidden:
            del main.__file__
        try:
            yield
        finally:
            for name, value in hidden.items():
                setattr(main, name, value)


# -- in a worker -------------------------------------------------------------------------------------------------------


def _serve(pipe: connection.Connection, where: Path, options: Options, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    stop = Stop()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent sends SIGTERM instead
    signal.signal(signal.SIGTERM, lambda *_: stop.request())
    threading.Thread(target=_stop_when_parent_dies, args=(stop,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the parent has ended
        while not stop.asked:
            if not pipe.poll(0.1):
                continue
            spec, code = pipe.recv()
            try:
                pipe.send(_train(pipe, spec, code, where, options, stop))
            except (EOFError, BrokenPipeError):
                return
            except Exception as error:  # the run failed: the parent reports it, this worker takes the next one
                pipe.send(_sendable(error))


def _train(
    pipe: connection.Connection, spec: Any, code: Copies, where: Path, options: Options, stop: Stop
) -> Event | None:
    """Send the events of a run, and return the last one; None if it was not started."""
    if stop.asked:
        return None
    try:
        for event in execute(read_in_worker(spec, code), where, options, stop):
            if isinstance(event, Finished | Stopped):
                return event
            pipe.send(event)
    except KeyboardInterrupt:  # stopped while it was prepared
        return None
    return None


def read_in_worker(spec: Any, code: Copies) -> RunSpec:
    """Read a run's spec. The process that sent it runs its code already. The import of a user's file that trains at its
    top level fails there, after it has defined its parts: the second attempt finds them."""
    global _reading
    _reading = True
    if isinstance(code, Mapping):
        trust.allow(code)
    try:
        with contextlib.suppress(InputError):
            return read_run(spec, code)
        return read_run(spec, code)
    finally:
        _reading = False


def _stop_when_parent_dies(stop: Stop) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        stop.asked = True


def _sendable(error: Exception) -> Exception:
    """An error that the parent can unpickle: errors of this package and of Python stay, others become text."""
    known = isinstance(error, InputError) or type(error).__module__ == "builtins"
    return error if known else RuntimeError(failure(error))
