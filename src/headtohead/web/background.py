"""Work that takes seconds, beside the server: in a separate process, with progress that pages ask for.

Audits use torch's global random numbers and much of a processor. In another process they disturb no other page.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from headtohead.errors import InputError, failure, is_users

Hear = Callable[[dict[str, Any]], object]  # is told how far the work is: {"done": 3, "total": 20, "now": "cache"}
KEPT = 64  # results of one page that are kept in memory


class Worker:
    """One process that does one work after another. It starts with the first work and ends with the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here: Any = None
        self._process: Any = None

    def run(self, work: Callable[..., Any], *given: Any, hear: Hear) -> Any:
        """Call `work(*given, hear=…)` in the process and return its value. Errors of the input are raised here."""
        with self._lock:
            try:
                here = self._connection()
                here.send((work, given))
                while True:
                    kind, value = here.recv()
                    if kind == "heard":
                        hear(value)
                    elif kind == "done":
                        return value
                    elif kind == "refused":
                        raise InputError(value)
                    else:
                        sys.stderr.write(value)
                        raise InputError("this failed inside headtohead: the terminal of h2h serve has the details")
            except (EOFError, OSError):
                self._end()
                raise InputError("the process that computes this has ended: try again") from None

    def close(self) -> None:
        """End the process, which then needs no memory. The next work starts a new one."""
        with self._lock:
            self._end()

    def _connection(self) -> Any:
        if self._process is None or not self._process.is_alive():
            context = multiprocessing.get_context("spawn")
            self._here, there = context.Pipe()
            self._process = context.Process(target=_serve, args=(there,), daemon=True, name="h2h serve: work")
            self._process.start()
            there.close()
        return self._here

    def _end(self) -> None:
        if self._process is not None:
            self._here.close()  # the process ends when it reads from it
            self._process = None


def _serve(there: Any) -> None:
    """The process: do what arrives, until the server has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which ends this process
    with contextlib.suppress(EOFError, OSError):
        while True:
            work, given = there.recv()
            try:
                answer = "done", work(*given, hear=lambda state: there.send(("heard", state)))
            except InputError as error:
                answer = "refused", str(error)
            except Exception as error:  # sent to the server, which prints it
                known = is_users(error)
                answer = ("refused", failure(error).splitlines()[0]) if known else ("failed", traceback.format_exc())
            there.send(answer)


class Tasks:
    """Works of a page by their names. A page asks again and again until the work is done."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self._lock = threading.Lock()
        self._states: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def ask(self, key: str, work: Callable[[Hear], Any]) -> dict[str, Any]:
        """The state of a work: {"state": "running", "done": 3, …}, {"state": "done", "value": …} or
        {"state": "failed", "error": …}. The first call starts it. A failure is told once; then it starts again."""
        with self._lock:
            if key not in self._states:
                state = self._states[key] = {"state": "running", "started": time.monotonic()}
                threading.Thread(target=self._do, args=(state, work), name=f"work {key[:40]}", daemon=True).start()
                while len(self._states) > self.kept:
                    self._states.popitem(last=False)
        told = self.state(key)
        if told["state"] == "failed":
            with self._lock:
                if self._states.get(key, {}).get("state") == "failed":
                    del self._states[key]
        return told

    def state(self, key: str) -> dict[str, Any]:
        """The state of a work that was started. Several pages may follow it: its end is told to each."""
        with self._lock:
            state = self._states.get(key)
            if state is None:
                raise InputError("this work has ended and is no longer known: start it again")
            self._states.move_to_end(key)
            told = dict(state)
        started = told.pop("started")
        return {**told, "seconds": time.monotonic() - started} if told["state"] == "running" else told

    def _do(self, state: dict[str, Any], work: Callable[[Hear], Any]) -> None:
        def hear(news: dict[str, Any]) -> None:
            with self._lock:
                state.update(news)

        try:
            value = work(hear)
        except InputError as error:
            with self._lock:
                state.update(state="failed", error=str(error))
        except Exception:
            with self._lock:
                state.update(state="failed", error="this failed inside headtohead: the terminal has the details")
            raise
        else:
            with self._lock:
                state.update(state="done", value=value)


def counted(hear: Hear, total: int) -> Callable[[str], None]:
    """A listener for the names of steps, which tells their number and the total."""
    done = 0

    def heard(name: str) -> None:
        nonlocal done
        hear({"done": done, "total": total, "now": name})
        done += 1

    return heard
