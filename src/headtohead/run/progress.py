"""Where a study is, for other processes: progress.json in its folder, written while the study is trained.

The web page reads it, whoever started the study. The file says nothing that is not in the store once the study has
ended, and is deleted then. A file of a process that is gone is ignored. Imports no torch.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.data.stored_json import DAMAGED, parsed
from headtohead.disk import writing
from headtohead.errors import InputError
from headtohead.run import events, files, store

EVERY = 1.0  # seconds between two writes


@dataclass
class ProgressFile:
    """Hears the events of a study and writes progress.json."""

    folder: Path
    stage: str = "audit"
    share: float = 0.0  # of the models that are audited
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)  # runs of the stage, by id
    active: dict[str, dict[str, Any]] = field(default_factory=dict)  # runs that are trained now, by id
    ended: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    written: float = 0.0

    def hear(self, event: Any) -> None:
        changed = True
        if isinstance(event, events.Stage):
            self.stage, self.active = event.title, {}
            self.cells = {cell.id: {"arm": cell.arm, "seed": cell.seed} for cell in event.cells}
        elif isinstance(event, events.Started):
            self.active[event.id] = {"done": event.done, "steps": event.steps}
        elif isinstance(event, events.Progress):
            changed = False
            self.active[event.id] = {
                "done": event.done,
                "steps": event.steps,
                "loss": event.loss,
                "tokens_per_second": event.tokens_per_second,
                "seconds_left": event.seconds_left,
            }
        elif isinstance(event, events.Finished | events.Stopped):
            self.active.pop(event.id, None)
            self.ended |= {event.id} if isinstance(event, events.Finished) else set()
        elif isinstance(event, events.Failed):
            self.active.pop(event.id, None)
            self.failed[event.id] = event.reason
        elif isinstance(event, events.AuditProgress):
            self.share = event.share
        elif isinstance(event, events.Note):
            self.notes = [*self.notes[-19:], event.line]
        else:
            changed = False
        now = time.monotonic()
        if now - self.written >= EVERY or (changed and now - self.written >= EVERY / 4):
            self.written = now
            self._write()

    def to_json(self) -> dict[str, Any]:
        running = {run: {**self.cells.get(run, {}), **state} for run, state in self.active.items()}
        done = sum(run in self.ended for run in self.cells)
        return {
            "pid": os.getpid(),
            "born": born(os.getpid()),
            "stage": self.stage,
            "audited": self.share,
            "runs": len(self.cells),
            "done": done,
            "running": running,
            "failed": self.failed,
            "notes": self.notes,
        }

    def _write(self) -> None:
        with contextlib.suppress(InputError):  # a full disk is reported by what matters more
            store.write_whole(self.folder / files.PROGRESS, store.to_text(self.to_json()))

    def close(self) -> None:
        with contextlib.suppress(InputError):
            writing.remove(self.folder / files.PROGRESS)


def read_progress(folder: Path) -> dict[str, Any] | None:
    """The progress of a study that a living process trains; None if there is none."""
    try:
        found = parsed((folder / files.PROGRESS).read_bytes())
        return found if is_process(int(found["pid"]), str(found["born"])) else None
    except (OSError, *DAMAGED):
        return None


def is_process(pid: int, since: str) -> bool:
    """Whether a process is the one that was started at `since`, as `born` says it. Files of a store may name any
    process, and numbers are used again."""
    return pid > 1 and since != "" and is_alive(pid) and born(pid) == since


def born(pid: int) -> str:
    """When the process was started, by the system's clock; empty if there is no such process."""
    if pid <= 0:
        return ""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if after_name[0] == "Z" else after_name[19]
    except (OSError, ValueError, IndexError):
        if Path("/proc/self").exists():
            return ""
    try:  # macOS has no /proc
        said = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return pid > 0
    return True
