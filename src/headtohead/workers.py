"""A pool of processes, each training runs one after the other with threads of its own. Spawned, never forked: torch and
the tokenizers hold threads that a fork would break."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from pathlib import Path
from typing import Any

from headtohead.arm import RunSpec, read_run
from headtohead.errors import Unavailable
from headtohead.runs import Event, Finished, NotBegun, Options, Stop, Stopped, execute, stop_politely


def execute_many(specs: list[RunSpec], where: Path, jobs: int, options: Options | None = None) -> Iterator[Event]:
    """Every run, `jobs` of them at a time in processes of their own; events as they happen."""
    options = options or Options()
    with stop_politely() as stop:
        if min(jobs, len(specs)) > 1:
            yield from _side_by_side(specs, where, min(jobs, len(specs)), options, stop)
        else:
            yield from _in_turn(specs, where, options, stop)


def _in_turn(specs: list[RunSpec], where: Path, options: Options, stop: Stop) -> Iterator[Event]:
    for n, spec in enumerate(specs):
        if stop.asked:
            yield NotBegun(len(specs) - n)
            return
        for event in execute(spec, where, options, stop):
            yield event
            if isinstance(event, Stopped) and n + 1 < len(specs):
                yield NotBegun(len(specs) - n - 1)
            if isinstance(event, Stopped):
                return


def _side_by_side(specs: list[RunSpec], where: Path, jobs: int, options: Options, stop: Stop) -> Iterator[Event]:
    context = multiprocessing.get_context("spawn")
    events = context.Queue()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(events,))
    told = False
    try:
        todo = {pool.submit(_work, spec.to_json(), where, options) for spec in specs}
        not_begun = 0
        while todo:
            if stop.asked and not told:
                told = True
                not_begun += sum(f.cancel() for f in todo)
                _tell(pool)
            with contextlib.suppress(queue.Empty):
                while True:
                    yield events.get(timeout=0.1)
            for future in [f for f in todo if f.done()]:
                todo.remove(future)
                if not future.cancelled():
                    ended = future.result()  # raises what the worker raised
                    not_begun += ended is None
                    if ended is not None:
                        yield ended
        if not_begun:
            yield NotBegun(not_begun)
    except BrokenProcessPool:
        raise Unavailable(
            "a worker died (killed, or out of memory): give the same command again, it goes on from the last checkpoint"
        ) from None
    finally:
        if not told:
            _tell(pool)
        pool.shutdown(wait=True, cancel_futures=True)
        events.close()


def _tell(pool: ProcessPoolExecutor) -> None:
    """Workers save after their step and end."""
    for worker in list((getattr(pool, "_processes", None) or {}).values()):
        with contextlib.suppress(OSError):
            os.kill(worker.pid, signal.SIGTERM)


# -- in a worker -------------------------------------------------------------------------------------------------------

_events: Any = None
_stop = Stop()


def _begin(events: Any) -> None:
    global _events
    _events = events
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent passes it on, once
    signal.signal(signal.SIGTERM, lambda *_: setattr(_stop, "asked", True))
    threading.Thread(target=_outlive_nobody, daemon=True).start()


def _outlive_nobody() -> None:
    """When the parent dies, however it dies, save and end."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        _stop.asked = True


def _work(spec: dict[str, Any], where: Path, options: Options) -> Event | None:
    """How the run ended; none if it was not begun."""
    if _stop.asked:
        return None
    for event in execute(read_run(spec), where, options, _stop):
        if isinstance(event, Finished | Stopped):
            return event
        _events.put(event)
    return None
