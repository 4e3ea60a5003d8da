"""Audits of modules that are pasted into the page: each in a separate process, with limits, never in the server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headtohead.disk.writing import write_whole
from headtohead.errors import InputError
from headtohead.web.background import Hear

MOST_SOURCE = 200_000  # characters
MOST_SHOWN = 4_000  # characters of what a module printed that are shown
MOST_ANSWER = 4 * 2**20  # bytes
MOST_NUMBER = 100_000
NAME = re.compile(r"[^\W\d]\w{0,79}")


@dataclass(frozen=True)
class Limits:
    """What a module may use."""

    cpu_seconds: int = 60
    seconds: int = 180
    memory: int = 4 * 2**30  # bytes of address space
    printed: int = 2**20  # bytes


class ModuleAudit:
    """One audit of a source. `run` blocks until it has ended; `stop` ends it."""

    def __init__(self, source: str, name: str, claims: dict[str, Any], limits: Limits | None = None) -> None:
        self.source, self.name, self.claims, self.limits = source, name, claims, limits or Limits()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = ""  # why it was ended, as a sentence
        self._printed = b""
        self._length = 0

    def run(self, hear: Hear) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="h2h-module-") as made, self._started(Path(made)) as answers:
            process = self._process
            assert process is not None
            if self._stopped:  # before it had started
                self._kill()
            drain = threading.Thread(target=self._drain, daemon=True)
            drain.start()
            timer = threading.Timer(self.limits.seconds + 30, self._end, [self._late()])
            timer.start()
            try:
                value = self._read(answers, hear)
            finally:
                timer.cancel()
                self._kill()  # processes that the module may have started, too
                code = process.wait()
                drain.join(5)
        if value is None:
            raise InputError(self._stopped or self._why(code))
        return value | {"printed": self._shown()}

    def stop(self) -> None:
        self._end("the audit was stopped")

    @contextlib.contextmanager
    def _started(self, folder: Path) -> Iterator[int]:
        write_whole(folder / "module.py", self.source)
        request = {"name": self.name, "claims": self.claims, "limits": asdict(self.limits)}
        write_whole(folder / "request.json", json.dumps(request))
        read, write = os.pipe()
        known = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH") if name in os.environ}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headtohead.web.module_process", str(folder), str(write)],
                cwd=folder,
                env={
                    **known,
                    "HOME": str(folder),
                    "HEADTOHEAD_HOME": str(folder),
                    "HEADTOHEAD_TRUST": str(folder / "trusted.json"),  # an audit approves nothing for later
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "PYTHONUNBUFFERED": "1",  # what it printed is there, however it ends
                    "OMP_NUM_THREADS": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[write],
                start_new_session=True,
            )
            os.close(write)
            yield read
        finally:
            os.close(read)

    def _read(self, answers: int, hear: Hear) -> dict[str, Any] | None:
        """Follow what the process tells, until its value or its end."""
        left = MOST_ANSWER
        with os.fdopen(os.dup(answers), "rb") as lines:
            while left > 0 and (line := lines.readline(left)):
                left -= len(line)
                try:
                    told = json.loads(line)
                    if "done" in told:
                        return _answer(told["done"])
                    if "error" in told:
                        self._stopped = self._stopped or str(told["error"])
                        return None
                    hear({name: told["heard"][name] for name in ("done", "total", "now") if name in told["heard"]})
                except (ValueError, TypeError, KeyError, AttributeError):  # the module wrote into the pipe
                    break
        return None

    def _drain(self) -> None:
        """Read what the module prints; keep the beginning, and end a module that prints without end."""
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            while piece := os.read(printed.fileno(), 65536):
                self._length += len(piece)
                self._printed += piece[: MOST_SHOWN - len(self._printed)]
                if self._length > self.limits.printed:
                    megabytes = self.limits.printed / 2**20
                    self._end(f"the module printed more than {megabytes:g} MB: remove its calls of print")

    def _end(self, why: str) -> None:
        self._stopped = self._stopped or why
        self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _late(self) -> str:
        return f"the module did not end within {self.limits.seconds} seconds: look for a loop or a long wait"

    def _why(self, code: int) -> str:
        """Why the process ended without an answer."""
        if code == -signal.SIGXCPU:
            return f"the module used {self.limits.cpu_seconds} seconds of processor time: look for an endless loop"
        if code == -signal.SIGALRM:
            return self._late()
        if code < 0:
            return f"the module crashed its process ({signal.Signals(-code).name}): look for code outside Python"
        last = self._shown().strip().rpartition("\n")[2]
        if code == 1 and last:
            return f"the module ended its process: {last[:200]}"
        return f"the module ended its process with exit code {code}: remove its call of exit"

    def _shown(self) -> str:
        text = self._printed.decode(errors="replace")
        more = self._length - len(self._printed)
        return f"{text}\n… and {more:,} bytes more" if more > 0 else text


def _answer(value: Any) -> dict[str, Any]:
    """The report that the process told. The module runs in that process and could write anything into the pipe."""
    texts = [value["summary"], value["name"], *(f[key] for f in value["findings"] for key in ("check", "status"))]
    if not all(isinstance(text, str) for text in texts) or not isinstance(value["others"], list):
        raise TypeError("not a report")
    return dict(value)


def module_audit(source: str, name: str, claims: dict[str, Any], limits: Limits | None = None) -> ModuleAudit:
    """An audit of what a page sent, each field checked. A claim that is None is not made."""
    if not source.strip():
        raise InputError("there is no source: paste a class that maps ids (B, T) to logits, or choose a file")
    if len(source) > MOST_SOURCE:
        raise InputError(f"the source is longer than {MOST_SOURCE:,} characters: paste the module alone")
    if name and not NAME.fullmatch(name):
        raise InputError("the name of the class is no name of Python: leave it empty to take the last class")
    for field, least in (("window", 1), ("vocab", 3), ("block", 1), ("pad", 0)):
        value = claims.get(field)
        if value is not None and not least <= value <= MOST_NUMBER:
            raise InputError(f"{field} must be a whole number from {least} to {MOST_NUMBER:,}, not {value}")
    return ModuleAudit(source, name, {field: value for field, value in claims.items() if value is not None}, limits)
