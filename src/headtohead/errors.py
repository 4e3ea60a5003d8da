"""Errors in the user's input, each reported in one line."""

from __future__ import annotations

import difflib
import errno
import sysconfig
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path


class InputError(ValueError):
    """The user's input is wrong. The message is one line that names the cause and the remedy."""

    exit_code = 2


class Unavailable(InputError):  # noqa: N818
    """This machine lacks something, such as a package, a network or disk space. The message names the remedy."""

    exit_code = 3


def needs_extra(what: str, extra: str, instead: str = "") -> Unavailable:
    """The error for packages of an extra that are not installed. `instead` names what can be done without them."""
    return Unavailable(f"{what} needs the extra {extra}: pip install 'headtohead[{extra}]'{instead and f', {instead}'}")


def needs_package(what: str, error: ModuleNotFoundError) -> Unavailable | None:
    """The error for a package that `pip install headtohead` installs and that is absent; None for modules of ours and
    for those that the user's own code imports."""
    package = (error.name or "").partition(".")[0]
    if not package or package == PACKAGE.name or is_users(error):
        return None
    return Unavailable(f"{what} needs the package {package}, which is not installed: pip install headtohead")


class PartFailed(InputError):  # noqa: N818
    """The user's own code raised an exception. The message is that of `failure`."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name: the closest known name, and all of them."""
    known = sorted(known)
    lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    hint = f"did you mean {lower[close[0]]}? " if close else ""
    return f"{hint}known: {', '.join(known) or 'none'}"


def it_has(name: str, known: Iterable[str]) -> str:
    """The end of an error message for a name that a file lacks: the closest name, and all of them in order."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}it has {', '.join(known) or 'none'}"


OUT_OF_MEMORY = "out of memory: make model.width or train.batch smaller, or run fewer processes with --jobs"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out. On a CPU, torch raises a plain RuntimeError."""
    messages = ("can't allocate memory", "not enough memory", "out of memory", "Storage size calculation overflowed")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(message in _said(error) for message in messages)
    )


# What the system refuses, with the remedy. Other errors of the system are reported where they happen, or are ours.
REFUSED = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "ask its owner for permission, or use another file or folder"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space"),
    errno.EFBIG: "raise the limit of file sizes, ulimit -f",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files, ulimit -n"),
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "remove the symbolic link that points to itself",
    errno.EROFS: "use another folder",
    errno.EIO: "check the disk",
}


def refusal(error: BaseException) -> str:
    """An error of the system in one line, with the remedy; empty for an error of another kind."""
    if not isinstance(error, OSError):
        return ""
    if error.errno == errno.ENOENT and str(error.strerror).startswith("No usable temporary directory"):
        return "no temporary file can be written: free some space, set TMPDIR to a folder of yours, or raise ulimit -f"
    if error.errno not in REFUSED:
        return ""
    name = "" if error.filename is None else f"{shortened(str(error.filename))}: "
    return f"{name}{error.strerror}; {REFUSED[error.errno]}"


def shortened(name: str, longest: int = 200) -> str:
    """A long name, as of a file, with … for its middle."""
    return name if len(name) <= longest else f"{name[: longest // 2]}…{name[-longest // 2 :]}"


def describe(error: BaseException, file: Path | None = None) -> str:
    """Describe an exception of the user's code in one line, with the line number in their file."""
    if isinstance(error, InputError):
        return str(error)
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    line = error.lineno if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if file is not None and Path(trace.tb_frame.f_code.co_filename) == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return _said(error) + (f" (line {line})" if line else "")


def _said(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split()) or "no message"
    except Exception as another:  # of the user's class, whose __str__ fails
        text = f"its message cannot be shown, because __str__ raised {type(another).__name__}"
    return f"{type(error).__name__}: {text[:300]}"


# -- exceptions of the user's own code ---------------------------------------------------------------------------------

PACKAGE = Path(__file__).resolve().parent
TYPED = ("<stdin>", "<ipython-input")  # code without a file that the user typed
LONGEST_LINE = 120  # characters of a source line that are shown


def failure(error: BaseException, ours: bool = False) -> str:
    """An exception in two lines: file, line and message, then the source line. The place is the last one in the user's
    own code; with `ours`, where there is none, the last one in this package. Without a place, or where the message
    already says what to do, it is the line of `describe`."""
    if isinstance(error, InputError) or is_out_of_memory(error):
        return describe(error)
    place = _place(error, ours)
    if place is None:
        return describe(error)
    file = Path(place.filename)
    shown = file.relative_to(PACKAGE.parent) if file.is_relative_to(PACKAGE) else file.name
    line = (place.line or "").strip()
    code = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} …"
    return f"{shown}:{place.lineno}: {_said(error)}" + (f"\n    {code}" if code else "")


def is_users(error: BaseException) -> bool:
    """Whether an exception came out of the user's own code."""
    return _place(error, ours=False) is not None


def _place(error: BaseException, ours: bool) -> traceback.FrameSummary | None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name != "__torch_dispatch__"]
    users = [frame for frame in frames if _is_users_file(frame.filename)]
    if not users and ours:
        users = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
    return users[-1] if users else None


@cache
def _is_users_file(name: str) -> bool:
    """Whether a file belongs to neither this package, nor Python, nor an installed package."""
    if name.startswith("<"):
        return name.startswith(TYPED)
    file, python = Path(name).resolve(), Path(sysconfig.get_path("stdlib")).resolve()
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return not (installed or file.is_relative_to(PACKAGE) or file.is_relative_to(python))
