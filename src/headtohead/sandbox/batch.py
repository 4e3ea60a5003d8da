"""Many pieces of work with foreign code, some at the same time: none can stop another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from queue import SimpleQueue
from typing import TypeVar

from headtohead.sandbox.nursery import Nursery

T = TypeVar("T")
R = TypeVar("R")


def in_order(todo: Sequence[T], run: Callable[[T, Nursery], R], imports: Sequence[str], jobs: int) -> Iterator[R]:
    """Yield `run(piece, nursery)` for each piece in order, when it and those before it are done."""
    done: dict[int, R] = {}
    place = 0
    with closing(as_finished(todo, run, imports, jobs)) as found:
        for number, result in found:
            done[number] = result
            while place in done:
                yield done.pop(place)
                place += 1


def as_finished(
    todo: Sequence[T], run: Callable[[T, Nursery], R], imports: Sequence[str], jobs: int
) -> Generator[tuple[int, R]]:
    """Yield the place of a piece and `run(piece, nursery)` when it is done. At the end, what still runs is ended."""
    free: SimpleQueue[Nursery] = SimpleQueue()
    nurseries = [Nursery(imports) for _ in range(max(1, min(jobs, len(todo))))]
    for one in nurseries:
        free.put(one)

    def with_nursery(piece: T) -> R:
        nursery = free.get()
        try:
            return run(piece, nursery)
        finally:
            free.put(nursery)

    pool = ThreadPoolExecutor(len(nurseries))
    try:
        places = {pool.submit(with_nursery, piece): place for place, piece in enumerate(todo)}
        for future in as_completed(places):
            yield places[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for one in nurseries:
            one.close()
        pool.shutdown()


def harmless(cell: str) -> str:
    """A cell of a table that a spreadsheet does not take for a formula: foreign code chose the text."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
