"""Consent to downloads. Commands that use data or a model download it and say so; a forecast asks first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headtohead.errors import Unavailable

_asking = False  # whether downloads need consent


@contextmanager
def by_consent(needed: bool = True) -> Iterator[None]:
    """Let every download in this context ask on a terminal, and be refused elsewhere."""
    global _asking
    before, _asking = _asking, needed
    try:
        yield
    finally:
        _asking = before


def needs_consent() -> bool:
    return _asking


def consent(what: str, size: str) -> None:
    """Return if this download may begin. `size` is text, such as 84 MB."""
    if not _asking:
        return
    said = f"the forecast needs {what} ({size}), which is not on this machine"
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty():
        print(f"h2h: {said}. Download it? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
        raise Unavailable(f"{what} was not downloaded: there is no forecast without it")
    raise Unavailable(f"{said}: add --download to download it")
