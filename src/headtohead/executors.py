"""Where runs are trained: here, in a pool of processes, on Ray. All take the same specs and give the same events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from headtohead.arm import RunSpec
from headtohead.errors import InputError, nearest
from headtohead.runs import Event, Options
from headtohead.workers import execute_many

Executor = Callable[[list[RunSpec], Path, Options], Iterator[Event]]


def executor_named(on: str, jobs: int, threads: int = 1) -> Executor:
    """local: so many processes, or this one for a single job. ray: a local cluster, or ray:ADDRESS a running one."""
    kind, _, address = on.partition(":")
    if kind == "ray":
        from headtohead.on_ray import execute_on_ray

        return partial(execute_on_ray, address=address or None, jobs=jobs, threads=threads)
    if on != "local":
        raise InputError(f"--on {on}: {nearest(on, ('local', 'ray', 'ray:ADDRESS'))}")
    return lambda specs, where, options: execute_many(specs, where, jobs, options, keep_going=True)
