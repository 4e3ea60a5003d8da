"""Contenders as processes of their own, idle unless asked."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steps.tasks import SINGLE, Setting

HERE = Path(__file__).resolve().parents[1]  # where `steps` is found

READY_SECONDS, ANSWER_SECONDS = 600.0, 300.0


class ContenderError(Exception):
    """A contender cannot go on; the message is the row's reason."""


class Child:
    """One process of a contender, idle unless asked."""

    def __init__(self, file: Path, task: str, threads: int) -> None:
        self._said: queue.Queue[str] = queue.Queue()
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        quiet = {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [sys.executable, str(file), task, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={
                **os.environ,
                **quiet,
                "OMP_NUM_THREADS": str(threads),
                "MKL_NUM_THREADS": str(threads),
                "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")])),
            },
            start_new_session=True,  # Ctrl-C comes to us alone, and `close` ends the child without its traceback
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, **request: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise ContenderError(self._why()) from None

    def answer(self, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        try:
            line = self._said.get(timeout=seconds)
        except queue.Empty:
            raise ContenderError(f"no answer within {seconds:.0f} s; try fewer steps, or leave it out") from None
        if not line:
            raise ContenderError(self._why())
        try:
            said = json.loads(line)
        except json.JSONDecodeError:
            said = None
        if not isinstance(said, dict):
            raise ContenderError(
                f"said {line.strip()[:80]!r}, which is no JSON object; only the protocol belongs on its stdout"
            )
        return said

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=10)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                pass  # it died with a request unread

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line)
        self._said.put("")  # it has ended

    def _why(self) -> str:
        """The last thing the process complained of, in one line."""
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return "it closed its stdout and went on running"
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
        if missing := re.search(r"No module named '(\w+)'", errors[-1] if errors else ""):
            name = missing[1].replace("_", "-")
            return f"{name} is not installed: pip install {name}"
        return (errors or lines or [f"it ended with exit code {code} and said nothing"])[-1][:300]


@dataclass
class Contender:
    """A contender while it is measured: its processes, and what they have said so far."""

    name: str
    children: dict[Setting, list[Child]] = field(default_factory=dict)
    seconds: dict[Setting, list[list[list[float]]]] = field(default_factory=dict)  # by round, process, step
    cpu: dict[Setting, list[float]] = field(default_factory=dict)  # seconds of all processes, by round
    losses: list[float] = field(default_factory=list)
    library: str = ""
    parameters: int = 0
    ends: dict[Setting, dict[str, Any]] = field(default_factory=dict)
    problem: str = ""

    def processes(self) -> list[Child]:
        return list(dict.fromkeys(child for children in self.children.values() for child in children))

    def start(self, file: Path, task: str, settings: Iterable[Setting]) -> None:
        """The process with one thread of the first setting is also one of those that work side by side."""
        for setting in settings:
            shared = self.children.get(SINGLE, []) if setting.threads == 1 else []
            new = [Child(file, task, setting.threads) for _ in range(setting.processes - len(shared))]
            self.children[setting] = [*shared, *new]
            self.seconds[setting], self.cpu[setting] = [], []

    def wait(self) -> None:
        for child in self.processes():
            said = child.answer(READY_SECONDS)
            self.library, self.parameters = str(said["library"]), int(said["parameters"])

    def turn(self, setting: Setting, steps: int, keep: bool) -> None:
        children = self.children[setting]
        for child in children:
            child.ask(steps=steps)
        said = [child.answer() for child in children]
        if sum(children[0] in serving for serving in self.children.values()) == 1:
            self.losses.append(float(said[0]["loss"]))  # of a process that has taken as many steps as everybody's
        if keep:
            self.seconds[setting].append([list(map(float, s["seconds"])) for s in said])
            self.cpu[setting].append(sum(float(s["cpu"]) for s in said))

    def end(self) -> None:
        for setting, children in self.children.items():
            if setting.processes == 1:
                children[0].ask(quit=True)
                self.ends[setting] = children[0].answer()

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What goes wrong in here is this contender's row and nobody else's trouble."""
        try:
            yield
        except (ContenderError, KeyError, TypeError, ValueError) as error:
            said = isinstance(error, ContenderError)
            self.problem = str(error) if said else f"broke the protocol: {type(error).__name__} {error}"
            self.close()

    def close(self) -> None:
        for child in self.processes():
            child.close()
