"""What the arms of a study cost, measured while the user still chooses: data, parameters, FLOPs, audit, time.

One of these takes between milliseconds and a minute. So a process of its own measures one thing after another
(measurements.py), and the server remembers what it found. Every question is answered at once with what is known, and
asked again while something is missing. This module imports no torch.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headtohead.training.arm import Arm

KEPT = 400  # results
WAITING = 64  # things to measure; older ones that nobody asks for any more are forgotten
PROGRAM = (sys.executable, "-P", "-m", "headtohead.web.measurements")
DIED = "it could not be measured: the process that measures has ended, maybe because memory ran out"


@dataclass(frozen=True)
class Wish:
    """Something to measure."""

    key: str  # what to measure, as JSON
    says: str  # shown while it is measured


def _wish(kind: str, says: str, **given: Any) -> Wish:
    return Wish(json.dumps({"kind": kind, **given}), says)


def data_of(arm: Arm) -> Wish:
    return _wish("data", "reading the corpus", arm=arm.to_json())


def size_of(arm: Arm, name: str) -> Wish:
    return _wish("size", f"counting the parameters and FLOPs of {name}", arm=arm.to_json())


def audit_of(arm: Arm, name: str) -> Wish:
    return _wish("audit", f"auditing {name}", model=arm.model.to_json(), causal=arm.is_causal)


def time_of(arm: Arm, name: str) -> Wish:
    return _wish("time", f"timing a few steps of {name}", arm=arm.to_json())


def runs_of(study: dict[str, Any]) -> Wish:
    """The runs until each planned analysis: id and arm. `study` holds the arguments of `study_for`."""
    return _wish("runs", "listing the runs", study=study)


def plan_of(study: dict[str, Any], effect: str, seconds: float) -> Wish:
    """What the noise of earlier studies says; asked again after a minute, because studies are added."""
    now = int(time.time() // 60)
    return _wish("plan", "reading earlier studies", study=study, effect=effect, seconds=seconds, now=now)


@dataclass(frozen=True)
class Answer:
    """What is known: values by key; a key that is not known yet is missing. `errors` are lines by key."""

    values: dict[str, Any]
    errors: dict[str, str]
    done: int
    of: int
    now: str  # what is measured now


class Recent:
    """The results of the last calls, by key. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, key: str, make: Callable[[], Any]) -> Any:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        made = make()
        with self._lock:
            self._known[key] = made
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return made


class Measurer:
    """Asks the process that measures. Thread and process start with the first question."""

    def __init__(self, home: Path, program: Sequence[str] = PROGRAM) -> None:
        self.home, self.program = home, (*program, str(home.resolve()))
        self._known: OrderedDict[str, tuple[Any, str]] = OrderedDict()  # value and error, by key
        self._waiting: list[Wish] = []
        self._now: Wish | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[str] | None = None
        self._ended = False

    def ask(self, wishes: Sequence[Wish]) -> Answer:
        """What is known of these; the rest is measured next, in this order."""
        with self._changed:
            known = {wish.key: self._known[wish.key] for wish in wishes if wish.key in self._known}
            for key in known:
                self._known.move_to_end(key)
            missing = [w for w in wishes if w.key not in known and (self._now is None or w.key != self._now.key)]
            asked = {wish.key for wish in wishes}
            self._waiting = [*missing, *(w for w in self._waiting if w.key not in asked)][:WAITING]
            self._start()
            self._changed.notify_all()
            now = self._now.says if self._now is not None and self._now.key in asked else ""
        values = {key: value for key, (value, error) in known.items() if not error}
        errors = {key: error for key, (_, error) in known.items() if error}
        return Answer(values, errors, len(known), len(asked), now or (missing[0].says if missing else ""))

    def _start(self) -> None:
        if self._thread is None and not self._ended:
            self._thread = threading.Thread(target=self._work, name="measurer", daemon=True)
            self._thread.start()
            atexit.register(self.stop)

    def stop(self) -> None:
        """End the thread and the process at once."""
        atexit.unregister(self.stop)
        with self._changed:
            self._ended, self._waiting = True, []
            self._changed.notify_all()
            process, thread = self._process, self._thread
        if process is not None:
            process.kill()
        if thread is not None:
            thread.join()  # it waits for the process only
        if process is not None:
            _close(process)

    def _work(self) -> None:
        self._running()  # starts at once, and loads torch while the user looks around
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                self._now = wish = self._waiting.pop(0)
            found = self._measured(wish.key)
            with self._changed:
                self._known[wish.key] = found
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
                self._now = None

    def _running(self) -> subprocess.Popen[str] | None:
        """The process; a new one if the last has died."""
        with self._changed:
            if self._process is not None and self._process.poll() is not None:
                _close(self._process)
                self._process = None
            if self._process is None and not self._ended:
                environment = {**os.environ, "HEADTOHEAD_HOME": str(self.home.resolve())}
                pipe = subprocess.PIPE
                self._process = subprocess.Popen(self.program, stdin=pipe, stdout=pipe, text=True, env=environment)
            return self._process

    def _measured(self, key: str) -> tuple[Any, str]:
        """The value and the error of one measurement."""
        process, line = self._running(), ""
        if process is not None and process.stdin is not None and process.stdout is not None:
            with contextlib.suppress(OSError, ValueError):  # the process has died
                print(key, file=process.stdin, flush=True)
                line = process.stdout.readline()
        try:
            value, error = json.loads(line)
        except ValueError:
            if process is not None:
                process.kill()
                process.wait()  # so that the next question starts another
            return None, DIED
        return value, error


def _close(process: subprocess.Popen[str]) -> None:
    """Close the pipes of a process that has ended."""
    with contextlib.suppress(OSError):  # a question that was not read
        process.communicate()
