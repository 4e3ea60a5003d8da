"""The side of the caller: start the process that forks, ask it for children, talk to them, end them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headtohead.errors import InputError
from headtohead.sandbox.channel import Arrays, Channel, Closed, Late
from headtohead.sandbox.limits import Limits

Why = Literal["time", "memory", "exit", "crash", "error"]
MOST_PRINTED = 4_000  # characters of what foreign code printed that are kept
NO_MEMORY = ("out of memory", "MemoryError", "allocate memory", "not enough memory", "Unable to allocate")
KNOWN = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH")  # of the environment, handed on


class Ended(Exception):  # noqa: N818
    """A piece of work ended before it answered; the message says why, as a sentence."""

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(message)
        self.why = why


class Work:
    """One forked child. `ask` sends a message and waits for the answer."""

    def __init__(self, nursery: Nursery, pid: int, channel: Channel, printed: int, limits: Limits) -> None:
        self._nursery, self.pid, self._channel, self.limits = nursery, pid, channel, limits
        self._deadline = time.monotonic() + limits.seconds
        self._kept = b""
        self._drain = threading.Thread(target=self._read_printed, args=(printed,), daemon=True)
        self._drain.start()

    def ask(self, value: Any, arrays: Arrays | None = None) -> tuple[Any, dict[str, np.ndarray]]:
        """Send a message and return the answer. Raise Ended if there is none, or if the child answers with an error."""
        self.send(value, arrays)
        return self.hear()

    def send(self, value: Any, arrays: Arrays | None = None) -> None:
        with contextlib.suppress(BrokenPipeError):  # the child has ended; `hear` says why
            self._channel.send(value, arrays)

    def hear(self) -> tuple[Any, dict[str, np.ndarray]]:
        """Wait for the next message of the child."""
        try:
            answer, arrays = self._channel.receive(self._deadline)
        except Late:
            raise Ended("time", self._late()) from None
        except Closed:
            raise self._ended() from None
        if isinstance(answer, dict) and "error" in answer:
            said = str(answer["error"])
            if any(sign in said for sign in NO_MEMORY):
                raise Ended("memory", self._too_large())
            raise Ended("error", said)
        return answer, arrays

    def printed(self) -> str:
        """The beginning of what the child printed."""
        return self._kept.decode(errors="replace")

    def _late(self) -> str:
        return f"it did not end within {self.limits.seconds:g} seconds: look for an endless loop"

    def _too_large(self) -> str:
        return f"it needs more than {self.limits.memory / 2**30:g} GB of memory"

    def _ended(self) -> Ended:
        code = self._nursery.reap(self.pid)
        if code in (-signal.SIGXCPU, -signal.SIGALRM):
            return Ended("time", self._late())
        if code == -signal.SIGKILL:
            return Ended("crash", "its process was killed, perhaps because the machine ran out of memory")
        if code < 0:
            return Ended("crash", f"it crashed its process ({signal.Signals(-code).name})")
        return Ended("exit", f"it ended its process with exit code {code}: remove its calls of exit")

    def _read_printed(self, file: int) -> None:
        with os.fdopen(file, "rb", buffering=0) as printed:
            while piece := printed.read(65536):
                self._kept += piece[: MOST_PRINTED - len(self._kept)]

    def close(self) -> None:
        """End the child, whatever it does."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self._nursery.reap(self.pid)
        for file in (self._channel.reads, self._channel.writes):
            os.close(file)
        self._drain.join(2)


class Nursery:
    """A process with torch imported that forks itself for each piece of work. Use it as a context manager."""

    def __init__(self, imports: Sequence[str] = ()) -> None:
        self._imports = tuple(imports)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._home = tempfile.TemporaryDirectory(prefix="h2h-")
        self._statuses: dict[int, int] = {}
        self._children: set[int] = set()
        self._closed = False

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process and all its children."""
        self._closed = True
        for pid in tuple(self._children):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self._stop()
        self._home.cleanup()

    @contextlib.contextmanager
    def work(self, target: str, folder: Path, limits: Limits, readable: Iterable[Path] = ()) -> Iterator[Work]:
        """Fork a child that calls `module:function` with its channel, inside `folder`, and end it afterwards. It may
        write there only, and read there and below `readable`."""
        work = self._fork(target, folder, limits, [str(path.resolve()) for path in readable])
        try:
            yield work
        finally:
            work.close()

    def _fork(self, target: str, folder: Path, limits: Limits, readable: list[str]) -> Work:
        asks, answers, printed = os.pipe(), os.pipe(), os.pipe()
        request = {"target": target, "folder": str(folder.resolve()), "limits": asdict(limits), "readable": readable}
        handed = [asks[0], answers[1], printed[1]]
        try:
            pid = self._ask(request, handed)["pid"]
        except (OSError, ValueError, KeyError):  # something ended it: start another one, once
            self._stop()
            pid = self._ask(request, handed)["pid"]
        finally:
            for file in handed:
                os.close(file)
        self._children.add(pid)
        return Work(self, pid, Channel(answers[0], asks[1]), printed[0], limits)

    def reap(self, pid: int) -> int:
        """Return how a child ended: its exit code, or minus its signal. A child that still runs is ended first."""
        self._children.discard(pid)
        if pid not in self._statuses and not self._closed:
            try:
                self._statuses[pid] = self._ask({"reap": pid}, [])["status"]
            except (OSError, ValueError, KeyError):
                self._statuses[pid] = -signal.SIGKILL
        return self._statuses.get(pid, -signal.SIGKILL)

    def _ask(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        line = self._running()
        socket.send_fds(line, [json.dumps(request).encode() + b"\n"], files)
        said = b""
        while not said.endswith(b"\n"):
            if not select.select([line], [], [], 120)[0]:
                raise OSError("the nursery does not answer")
            piece = line.recv(4096)
            if not piece:
                raise OSError("the nursery ended")
            said += piece
        answer: dict[str, Any] = json.loads(said)
        return answer

    def _running(self) -> socket.socket:
        if self._closed:
            raise Ended("exit", "the work was stopped")
        if self._socket is None:
            ours, theirs = socket.socketpair()
            command = [sys.executable, "-m", "headtohead.sandbox.forking", str(theirs.fileno()), *self._imports]
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env=self._environment(),
                cwd=self._home.name,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            theirs.close()
            self._socket = ours
            if not select.select([ours], [], [], 300)[0] or not ours.recv(6):
                raise InputError("the process that runs foreign code did not start: see the message above")
        return self._socket

    def _environment(self) -> dict[str, str]:
        known = {name: os.environ[name] for name in KNOWN if name in os.environ}
        path = os.pathsep.join(entry for entry in sys.path if entry and Path(entry).is_dir())
        return {
            **known,
            "PYTHONPATH": path,
            "HOME": self._home.name,
            "HEADTOHEAD_HOME": self._home.name,
            "HEADTOHEAD_TRUST": str(Path(self._home.name) / "trusted.json"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        self._statuses.clear()
