"""Terms that a model adds to its loss, such as the load balance of experts.

A module calls `add_term("balance", value)` in its forward pass. Training collects the terms, and the objective weights
them. Outside of training nothing is collected, and the call does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

Terms = dict[str, Tensor]

_collected: ContextVar[Terms | None] = ContextVar("terms", default=None)


def add_term(name: str, value: Tensor) -> None:
    """Add a scalar to the loss of this forward pass. Terms of one name, such as those of several layers, are summed."""
    terms = _collected.get()
    if terms is not None:
        terms[name] = terms[name] + value if name in terms else value


@contextmanager
def collect_terms() -> Iterator[Terms]:
    """Collect what modules add inside this context."""
    terms: Terms = {}
    before = _collected.set(terms)
    try:
        yield terms
    finally:
        _collected.reset(before)
