"""What goes wrong by the user's hand, said in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class InputError(ValueError):
    """Something the user gave is wrong. The message is one line that names the cause and the remedy."""

    exit_code = 2


class Unavailable(InputError):  # noqa: N818
    """This machine lacks something: a package, a network, room on the disk. One line, with the remedy."""

    exit_code = 3


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message for a name nobody knows: the closest one, and all of them."""
    known = sorted(known)
    lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean {lower[close[0]]}? " if close else ""
    return f"{hint}known: {', '.join(known) or 'none'}"


OUT_OF_MEMORY = "out of memory: make model.width or train.batch smaller, or run fewer side by side with --jobs"


def is_out_of_memory(error: BaseException) -> bool:
    """torch says so with a plain RuntimeError on the processor, and with one of its own on other devices."""
    said = ("can't allocate memory", "not enough memory", "out of memory", "Storage size calculation overflowed")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in said)
    )


def describe(error: BaseException, file: Path | None = None) -> str:
    """An exception of the user's code in one line, with the line of their file where it arose."""
    if isinstance(error, InputError):
        return str(error)
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    text = " ".join(str(error).split()) or "no message"
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if file is not None and Path(trace.tb_frame.f_code.co_filename) == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{type(error).__name__}: {text[:300]}" + (f" (line {line})" if line else "")
