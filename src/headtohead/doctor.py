"""What this machine has, and what to do about what it lacks. Imports nothing heavy."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    what: str
    found: str
    remedy: str = ""


def examine() -> list[Finding]:
    return [
        Finding("Python", platform.python_version()),
        Finding("cores", str(os.cpu_count() or 1), "" if (os.cpu_count() or 1) > 1 else "runs go one after the other"),
        Finding("memory", _memory()),
        *(_package(name, remedy) for name, remedy in _PACKAGES.items()),
        _data(),
        _disk(),
    ]


_PACKAGES = {
    "torch": "./run installs it",
    "transformers": "only for pretrained models: pip install 'headtohead[hf]'",
}


def _package(name: str, remedy: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "absent", remedy)


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (ValueError, OSError, AttributeError):
        return "unknown"


def _data() -> Finding:
    folder = os.environ.get("HEADTOHEAD_DATA")
    if not folder:
        return Finding(
            "HEADTOHEAD_DATA", "not set", "for speeches, sst2 and shakespeare: set it to the folder that holds them"
        )
    if not Path(folder).is_dir():
        return Finding("HEADTOHEAD_DATA", f"{folder} is no folder", "correct it, or unset it")
    return Finding(
        "HEADTOHEAD_DATA", ", ".join(sorted(p.name for p in Path(folder).iterdir() if p.is_dir())) or "empty"
    )


def _disk() -> Finding:
    free = shutil.disk_usage(".").free / 2**30
    return Finding("free disk", f"{free:.1f} GiB", "" if free > 1 else "runs need room: free some")
