"""The loop with a backend that plays a script, for orders of messages that real workers cannot be made to send."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headtohead import InputError, RunSpec
from headtohead.errors import Unavailable
from headtohead.run.events import Event, Failed, Finished, NotBegun, Progress, Stopped, Waiting
from headtohead.run.executors.loop import ATTEMPTS, Loop, Message, NotSaved, WorkerDied
from headtohead.run.session import Stop
from headtohead.run.store import Busy

SPECS = [RunSpec(seed=seed) for seed in range(3)]
A, B, C = (spec.id for spec in SPECS)


class Scripted:
    """Answers every start of a run with the next part of its script; asked to stop, with `at_stop`."""

    def __init__(self, scripts: dict[str, list[Any]], at_stop: dict[str, Any] | None = None, capacity: int = 2) -> None:
        self.scripts, self.at_stop, self.capacity = scripts, at_stop or {}, capacity
        self.queue: list[Message] = []
        self.started: list[str] = []
        self.closed = False

    def start(self, spec: RunSpec) -> None:
        self.started.append(spec.id)
        if self.scripts.get(spec.id):
            self.queue += [Message(spec.id, content) for content in self.scripts[spec.id].pop(0)]

    def poll(self) -> Iterable[Message]:
        return [self.queue.pop(0)] if self.queue else []

    def stop(self) -> None:
        self.queue += [Message(run, content) for run, content in self.at_stop.items()]

    def close(self) -> None:
        self.closed = True


def progress(run: str) -> Progress:
    return Progress(run, 1, 2, 1.0, 1.0, 1.0)


def finished(run: str) -> Finished:
    return Finished(run, "there")


def test_no_more_runs_start_than_the_backend_takes(tmp_path: Path):
    backend = Scripted({run: [[progress(run), finished(run)]] for run in (A, B, C)}, capacity=1)
    events = list(Loop(backend, tmp_path, Stop()).run(SPECS))
    assert events == [event for run in (A, B, C) for event in (progress(run), finished(run))]
    assert backend.closed


def test_a_run_whose_worker_died_is_retried_first(tmp_path: Path):
    backend = Scripted({A: [[WorkerDied()], [finished(A)]], B: [[finished(B)]], C: [[finished(C)]]}, capacity=1)
    assert list(Loop(backend, tmp_path, Stop()).run(SPECS)) == [finished(A), finished(B), finished(C)]
    assert backend.started == [A, A, B, C]


def test_a_run_fails_after_the_last_attempt(tmp_path: Path):
    backend = Scripted({A: [[WorkerDied("it died")]] * ATTEMPTS})
    assert list(Loop(backend, tmp_path, Stop()).run(SPECS[:1])) == [Failed(A, "it died")]
    assert backend.started == [A] * ATTEMPTS
    backend = Scripted({A: [[WorkerDied("it died")]] * ATTEMPTS})
    with pytest.raises(Unavailable, match="it died"):
        list(Loop(backend, tmp_path, Stop(), keep_going=False).run(SPECS[:1]))
    assert backend.closed


def test_an_error_is_noted_or_raised(tmp_path: Path):
    error = InputError("wrong")
    backend = Scripted({A: [[error]], B: [[finished(B)]]})
    assert list(Loop(backend, tmp_path, Stop()).run(SPECS[:2])) == [Failed(A, "wrong"), finished(B)]
    with pytest.raises(InputError, match="wrong"):
        list(Loop(Scripted({A: [[error]]}), tmp_path, Stop(), keep_going=False).run(SPECS[:1]))


def test_a_run_of_another_process_is_tried_again_later(tmp_path: Path):
    backend = Scripted({A: [[Busy()], [finished(A)]], B: [[finished(B)]]})
    assert list(Loop(backend, tmp_path, Stop()).run(SPECS[:2])) == [Waiting(A), finished(B), finished(A)]
    with pytest.raises(Busy):
        list(Loop(Scripted({A: [[Busy()]]}), tmp_path, Stop(), keep_going=False).run(SPECS[:1]))


def stopped_at_progress(backend: Scripted, tmp_path: Path) -> list[Event]:
    stop, events = Stop(), []
    for event in Loop(backend, tmp_path, stop).run(SPECS):
        events.append(event)
        stop.asked = stop.asked or isinstance(event, Progress)
    return events


def test_stopped_runs_come_after_all_others_have_ended(tmp_path: Path):
    stopped = Stopped(A, 1, 2)
    events = stopped_at_progress(Scripted({A: [[progress(A)]]}, {A: stopped, B: finished(B)}), tmp_path)
    assert events == [progress(A), finished(B), stopped, NotBegun(1)]


def test_a_stop_before_a_start_counts_as_not_begun(tmp_path: Path):
    events = stopped_at_progress(Scripted({A: [[progress(A)]]}, {A: Stopped(A, 1, 2), B: None}), tmp_path)
    assert events == [progress(A), Stopped(A, 1, 2), NotBegun(2)]


def test_a_stop_while_the_last_run_ends_is_reported(tmp_path: Path):
    assert list(Loop(Scripted({}), tmp_path, Stop(asked=True)).run([])) == [NotBegun(0)]


def test_a_run_that_could_not_be_saved_is_an_error(tmp_path: Path):
    with pytest.raises(Unavailable, match="1 of the runs did not save themselves"):
        stopped_at_progress(Scripted({A: [[progress(A)]]}, {A: NotSaved(), B: finished(B)}), tmp_path)


def test_a_caller_that_leaves_lets_the_runs_save_themselves(tmp_path: Path):
    backend = Scripted({A: [[progress(A)]]}, {A: Stopped(A, 1, 2), B: None})
    events = Loop(backend, tmp_path, Stop()).run(SPECS)
    assert next(iter(events)) == progress(A)
    events.close()  # type: ignore[attr-defined]
    assert backend.closed
    assert backend.queue == []
