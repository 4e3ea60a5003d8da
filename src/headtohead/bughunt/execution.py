"""Measuring files in a process with a time limit. The only function here that executes a student's file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from headtohead.bughunt.measuring import FOUND, REQUEST
from headtohead.disk.writing import write_whole

SECONDS = 120
PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT")


def measured(files: Mapping[str, str], audit: Collection[str] = (), seconds: float = SECONDS) -> dict[str, Any]:
    """Measure the texts of files, and audit some of them, in one new process without your environment. Each name has
    "values" and "broken" checks, or a "problem". It is no sandbox: the code has your rights."""
    with tempfile.TemporaryDirectory(prefix="h2h-hunt-") as made:
        folder = Path(made)
        for name, text in files.items():
            write_whole(folder / name, text)
        write_whole(folder / REQUEST, json.dumps({"files": list(files), "audit": list(audit)}))
        problem = _run(folder, seconds)
        try:
            found = json.loads((folder / FOUND).read_text(encoding="utf-8"))
            return {name: _checked(found[name]) for name in files}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):  # also what the file wrote there itself
            return {name: {"problem": problem or "the file ended its process"} for name in files}


def _checked(found: Any) -> dict[str, Any]:
    if "problem" in found:
        return {"problem": str(found["problem"])}
    if not (isinstance(found["values"], dict) and isinstance(found["broken"], dict)):
        raise TypeError("not an answer")
    return dict(found)


def _run(folder: Path, seconds: float) -> str:
    """Run the process to its end; return why it gave nothing, if it did."""
    environment = {
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        "HOME": str(folder),
        "HEADTOHEAD_TRUST": str(folder / "trusted.json"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "headtohead.bughunt.measuring", str(folder)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return f"the file did not end within {seconds:g} seconds: look for an endless loop"
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return f"the file ended its process with exit code {code}" if code else ""
