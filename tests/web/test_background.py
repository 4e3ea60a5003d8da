"""Work beside the server: progress, values, errors, and a process that dies."""

from __future__ import annotations

import os
import threading
import time

import pytest

from headtohead.errors import InputError
from headtohead.web.background import Tasks, Worker, counted


def add(a, b, hear):
    heard = counted(hear, 2)
    heard("first")
    heard("second")
    return a + b, os.getpid()


def nothing(hear):  # noqa: ARG001
    return None


def refuse(hear):  # noqa: ARG001
    raise InputError("no such thing: choose another")


def die(hear):  # noqa: ARG001
    os._exit(3)


@pytest.fixture(scope="module")
def worker():
    made = Worker()
    yield made
    made.close()


def test_work_is_done_in_one_other_process(worker):
    told = []
    value, pid = worker.run(add, 2, 3, hear=told.append)
    assert value == 5
    assert told == [{"done": 0, "total": 2, "now": "first"}, {"done": 1, "total": 2, "now": "second"}]
    assert pid != os.getpid()
    assert worker.run(add, 0, 0, hear=told.append)[1] == pid


def test_errors_are_one_sentence_and_the_worker_goes_on(worker, capfd):
    with pytest.raises(InputError, match=r"^no such thing: choose another$"):
        worker.run(refuse, hear=print)
    with pytest.raises(InputError, match="inside headtohead"):
        worker.run(counted, 1, hear=print)  # called wrongly by headtohead itself
    assert "TypeError: counted()" in capfd.readouterr().err  # for the terminal
    with pytest.raises(InputError, match="has ended: try again"):
        worker.run(die, hear=print)
    assert worker.run(add, 1, 1, hear=print)[0] == 2


def test_tasks_tell_progress_then_the_value():
    tasks, go, calls = Tasks(), threading.Event(), []

    def work(hear):
        calls.append(1)
        hear({"done": 1, "total": 4})
        go.wait(10)
        return "made"

    first = tasks.ask("a", work)
    assert first["state"] == "running"
    while tasks.ask("a", work).get("done") != 1:
        time.sleep(0.01)
    go.set()
    while (state := tasks.ask("a", work))["state"] != "done":
        time.sleep(0.01)
    assert state["value"] == "made"
    assert calls == [1]


def test_a_failed_task_tells_once_and_starts_again():
    tasks = Tasks()
    while (state := tasks.ask("a", refuse))["state"] == "running":
        time.sleep(0.01)
    assert state == {"state": "failed", "error": "no such thing: choose another"}
    with pytest.raises(InputError, match="no longer known"):
        tasks.state("a")
    assert tasks.ask("a", nothing)["state"] in ("running", "done")


def test_old_results_are_forgotten():
    tasks = Tasks(kept=3)
    for name in "abcdef":
        tasks.ask(name, nothing)
    with pytest.raises(InputError):
        tasks.state("a")
    tasks.state("f")
