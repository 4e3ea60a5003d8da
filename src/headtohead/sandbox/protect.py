"""What a platform can keep from foreign code, and how it is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headtohead.sandbox import calls, files
from headtohead.sandbox.limits import Limits


def protect(limits: Limits, folder: Path, readable: Iterable[Path] = ()) -> None:
    """Limit this process for the rest of its life. It may write below `folder` only, and read there, below `readable`
    and what Python needs."""
    limits.apply()
    files.restrict([*files.needed(), *readable], [folder])
    calls.restrict()  # last, because it refuses what the others need


def protections() -> dict[str, bool]:
    """What foreign code is kept from on this machine."""
    try:
        import resource  # noqa: F401
    except ImportError:
        limited = False
    else:
        limited = True
    landlock, seccomp = files.version(), calls.possible()
    return {
        "time, memory and size of files": limited,
        "files outside its own folder": landlock > 0,
        "the network": seccomp or landlock >= 4,
        "signals to other processes": seccomp or landlock >= 6,
        "starting further processes": seccomp,
    }
