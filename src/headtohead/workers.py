"""A pool of processes, each training runs one after the other with threads of its own. Spawned, never forked: torch and
the tokenizers hold threads that a fork would break."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from headtohead.arm import RunSpec, read_run
from headtohead.errors import Unavailable
from headtohead.runs import Event, Options, Stopped, execute

_events: Any = None


def execute_many(specs: list[RunSpec], where: Path, jobs: int, options: Options | None = None) -> Iterator[Event]:
    """Every run, `jobs` of them at a time in processes of their own; events as they happen."""
    options = options or Options()
    if min(jobs, len(specs)) > 1:
        yield from _side_by_side(specs, where, min(jobs, len(specs)), options)
        return
    for spec in specs:
        for event in execute(spec, where, options):
            yield event
            if isinstance(event, Stopped):
                return


def _side_by_side(specs: list[RunSpec], where: Path, jobs: int, options: Options) -> Iterator[Event]:
    context = multiprocessing.get_context("spawn")
    events = context.Queue()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(events,))
    todo: list[Future[None]] = []
    try:
        todo = [pool.submit(_work, spec.to_json(), where, options) for spec in specs]
        while True:
            over = all(f.done() for f in todo)
            try:
                while True:
                    yield events.get(timeout=0.0 if over else 0.2)
            except queue.Empty:
                pass
            for future in todo:
                if future.done() and not future.cancelled():
                    future.result()  # raises what the worker raised
            if over:
                return
    except BrokenProcessPool:
        raise Unavailable(
            "a worker died (killed, or out of memory): give the same command again, it goes on from the last checkpoint"
        ) from None
    finally:
        for future in todo:
            future.cancel()
        for worker in list((getattr(pool, "_processes", None) or {}).values()):
            if not all(f.done() for f in todo) and worker.pid:
                _interrupt(worker.pid)
        pool.shutdown(wait=True, cancel_futures=True)
        events.close()


def _interrupt(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGTERM)  # it saves after its step and ends


def _begin(events: Any) -> None:
    global _events
    _events = events
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent passes it on, once


def _work(spec: dict[str, Any], where: Path, options: Options) -> None:
    for event in execute(read_run(spec), where, options):
        _events.put(event)
        if isinstance(event, Stopped):
            return
