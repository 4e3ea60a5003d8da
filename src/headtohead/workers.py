"""A pool of processes, each training runs one after the other with threads of its own. Never forked from this one:
torch and the tokenizers hold threads that a fork would break. On Linux they are forked from a process that has loaded
torch and done nothing else, so that many start as soon as one; elsewhere each is spawned. A worker that dies is
replaced and its run goes on from its last checkpoint; a run that another process is training is waited for."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from headtohead import store
from headtohead.arm import RunSpec, read_run
from headtohead.errors import InputError, Unavailable, describe
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

CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
PRELOADED = ["headtohead.runs", "headtohead.tasks", "headtohead.arm"]  # with torch, once for all workers
LIVES = 3  # of a run: so often may its worker die
PATIENCE = 0.5  # seconds before a run of another process is asked for again

_HIDING = threading.Lock()
_serving = False  # whether a worker is reading a run, and with it perhaps a user's file


def execute_many(
    specs: list[RunSpec], where: Path, jobs: int, options: Options | None = None, keep_going: bool = False
) -> Iterator[Event]:
    """Every run, `jobs` of them at a time in processes of their own; events as they happen. To `keep_going` is to note
    a run that fails and train the others, and to wait for one that another process trains; else either is raised."""
    not_in_a_worker()
    options = options or Options()
    specs = yield from still_to_train(specs, where)
    with stop_politely() as stop:
        if min(jobs, len(specs)) > 1:
            events = _Pool(where, options, stop, keep_going).execute(specs, min(jobs, len(specs)))
        else:
            events = _in_turn(specs, where, options, stop, keep_going)
        obeyed = False
        for event in events:
            obeyed = obeyed or isinstance(event, Stopped | NotBegun)
            yield event
        if stop.asked and not obeyed:  # while the last run ended: whoever has more to do must not go on
            yield NotBegun(0)


def not_in_a_worker() -> None:
    """A user's script that trains at its top gets here when a worker imports it for a part of its own."""
    if _serving:
        raise InputError(
            'write `if __name__ == "__main__":` before what trains: workers import this file for its parts'
        )


def still_to_train(specs: list[RunSpec], where: Path) -> Generator[Event, None, list[RunSpec]]:
    """Without those that the store has: for them alone no process need be started."""
    todo = []
    for spec in specs:
        folder = where / "runs" / spec.id
        if (folder / "result.json").is_file():
            yield Finished(spec.id, str(folder), already=True)
        else:
            todo.append(spec)
    return todo


def _in_turn(specs: list[RunSpec], where: Path, options: Options, stop: Stop, keep_going: bool) -> Iterator[Event]:
    todo = deque(specs)
    while todo:
        if stop.asked:
            yield NotBegun(len(todo))
            return
        spec = todo.popleft()
        try:
            for event in execute(spec, where, options, stop):
                yield event
                if isinstance(event, Stopped):
                    if todo:
                        yield NotBegun(len(todo))
                    return
        except store.Busy:
            if not keep_going:
                raise
            yield Waiting(spec.id)
            todo.append(spec)
            time.sleep(PATIENCE / len(todo))
        except Exception as error:
            if not keep_going:
                raise
            yield note_failure(where, spec, error)


# -- side by side ------------------------------------------------------------------------------------------------------


@dataclass
class _Worker:
    process: Any
    pipe: connection.Connection
    spec: RunSpec | None = None  # what it is training

    @classmethod
    def start(cls, where: Path, options: Options) -> _Worker:
        CONTEXT.set_forkserver_preload(PRELOADED)
        ours, theirs = CONTEXT.Pipe()
        # the process that workers are forked from has the environment of when it began
        process = CONTEXT.Process(target=_serve, args=(theirs, where, options, dict(os.environ)), daemon=True)
        with _deaf(), _without_main():
            process.start()
        theirs.close()  # so that its death ends the pipe
        return cls(process, ours)

    def take(self, spec: RunSpec) -> None:
        self.spec = spec
        with contextlib.suppress(OSError):  # it died just now: the pipe will say so
            self.pipe.send(spec.to_json())

    def tell(self) -> None:
        """Save after the step and end."""
        if self.process.pid and self.process.is_alive():
            with contextlib.suppress(OSError):
                os.kill(self.process.pid, signal.SIGTERM)

    def end(self) -> None:
        self.tell()
        with contextlib.suppress(OSError):
            self.pipe.close()
        self.process.join()


@dataclass
class _Pool:
    where: Path
    options: Options
    stop: Stop
    keep_going: bool

    def execute(self, specs: list[RunSpec], jobs: int) -> Iterator[Event]:
        todo, deaths, not_before = deque(specs), Counter[str](), dict[str, float]()
        workers: list[_Worker] = []
        told = False
        try:
            while todo or any(w.spec for w in workers):
                if self.stop.asked:
                    if not told:
                        told = True
                        for worker in workers:
                            worker.tell()
                    if not any(w.spec for w in workers):
                        break
                else:
                    self._hand_out(todo, not_before, workers, jobs)
                for pipe in connection.wait([w.pipe for w in workers], timeout=0.1):
                    worker = next(w for w in workers if w.pipe is pipe)
                    try:
                        said = worker.pipe.recv()
                    except (EOFError, OSError):  # dead, however it died
                        workers.remove(worker)
                        worker.end()
                        if worker.spec is not None:
                            yield from self._bury(worker.spec, todo, deaths)
                        continue
                    yield from self._hear(worker, said, todo, not_before)
            if todo:
                yield NotBegun(len(todo))
        finally:
            for worker in workers:
                worker.tell()
            for worker in workers:
                worker.end()

    def _hand_out(self, todo: deque[RunSpec], not_before: dict[str, float], workers: list[_Worker], jobs: int) -> None:
        for _ in range(len(todo)):
            if not_before.get(todo[0].id, 0) > time.monotonic():
                todo.rotate(-1)
                continue
            idle = next((w for w in workers if w.spec is None), None)
            if idle is None and len(workers) < jobs:
                workers.append(idle := _Worker.start(self.where, self.options))
            if idle is None:
                return
            idle.take(todo.popleft())

    def _hear(self, worker: _Worker, said: Any, todo: deque[RunSpec], not_before: dict[str, float]) -> Iterator[Event]:
        spec = worker.spec
        assert spec is not None
        if isinstance(said, BaseException):
            worker.spec = None
            if not self.keep_going:
                raise said
            if isinstance(said, store.Busy):
                yield Waiting(spec.id)
                not_before[spec.id] = time.monotonic() + PATIENCE
                todo.append(spec)
            else:
                yield note_failure(self.where, spec, said)
        elif said is None:  # asked to stop before it began
            worker.spec = None
            todo.append(spec)
        else:
            if isinstance(said, Finished | Stopped):
                worker.spec = None
            yield said

    def _bury(self, spec: RunSpec, todo: deque[RunSpec], deaths: Counter[str]) -> Iterator[Event]:
        deaths[spec.id] += 1
        if deaths[spec.id] < LIVES or self.stop.asked:
            todo.appendleft(spec)
            return
        error = Unavailable(
            f"the worker of run {spec.id} died {LIVES} times (killed, or out of memory): give the same command again, "
            "it goes on from the last checkpoint"
        )
        if not self.keep_going:
            raise error
        yield note_failure(self.where, spec, error)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """A process started here ignores Ctrl-C from its first moment, before `_serve` could say so."""
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
    """A process started here does not import the user's script, as spawning would: a script that trains at its top, or
    that came through a pipe, would fail or train again. Workers need nothing of it: runs travel as JSON, and the files
    of the user's parts with them."""
    with _HIDING:
        main = sys.modules["__main__"]
        hidden = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
        main.__spec__ = None  # spawning asks for it, set or not
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent passes it on, once
    signal.signal(signal.SIGTERM, lambda *_: setattr(stop, "asked", True))
    threading.Thread(target=_outlive_nobody, args=(stop,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while not stop.asked:
            if not pipe.poll(0.1):
                continue
            spec = pipe.recv()
            try:
                pipe.send(_last_of(pipe, spec, where, options, stop))
            except (EOFError, BrokenPipeError):
                return
            except Exception as error:
                pipe.send(_sendable(error))


def _last_of(pipe: connection.Connection, spec: Any, where: Path, options: Options, stop: Stop) -> Event | None:
    """How the run ended; none if it was not begun."""
    if stop.asked:
        return None
    for event in execute(read_in_worker(spec), where, options, stop):
        if isinstance(event, Finished | Stopped):
            return event
        pipe.send(event)
    return None


def read_in_worker(spec: Any) -> RunSpec:
    """A script that trains at its top ends there when it is imported, after it has defined the parts it trains: the
    second time they are known."""
    global _serving
    _serving = True
    try:
        with contextlib.suppress(InputError):
            return read_run(spec)
        return read_run(spec)
    finally:
        _serving = False


def _outlive_nobody(stop: Stop) -> None:
    """When the parent dies, however it dies, save and end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        stop.asked = True


def _sendable(error: Exception) -> Exception:
    """What the parent can read back: our own errors and Python's. One of a user's class might not survive the way."""
    ours = isinstance(error, InputError) or type(error).__module__ == "builtins"
    return error if ours else RuntimeError(describe(error))
