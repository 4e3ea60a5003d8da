"""Jobs of the page: the command itself, seen by every server of the store, stopped and continued."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headtohead.errors import InputError
from headtohead.run.events import Note
from headtohead.run.progress import ProgressFile
from headtohead.web import jobs


def ended(home: Path, id: str) -> dict[str, Any]:
    until = time.monotonic() + 120
    while (found := jobs.shown(home, jobs.read(home, id), 1000))["running"] or found["code"] is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def wait_until_it_prints(home: Path, id: str) -> None:
    until = time.monotonic() + 120
    while not jobs.shown(home, jobs.read(home, id), 1000)["output"]:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_job_is_the_command_and_what_it_printed(home: Path):
    job = jobs.start(home, ["list", "studies", "--nonsense"], "x")
    found = ended(home, job.id)
    assert found["code"] == 2
    assert "--nonsense" in found["output"]
    assert not found["ready"]
    assert [one["id"] for one in jobs.listed(home)] == [job.id]


def test_a_job_is_stopped_as_by_ctrl_c(home: Path, monkeypatch: pytest.MonkeyPatch):
    script = home.parent / "job.py"
    script.write_text(
        "import signal, time\nsignal.signal(2, signal.default_int_handler)\nprint(1, flush=True)\ntime.sleep(60)\n"
    )
    monkeypatch.setattr(jobs, "PROGRAM", [str(script)])
    job = jobs.start(home, [], "one")
    with pytest.raises(InputError, match="being trained already"):
        jobs.start(home, [], "one")
    wait_until_it_prints(home, job.id)
    jobs.stop(home, job.id)
    assert ended(home, job.id)["code"] != 0
    jobs.stop(home, jobs.start(home, [], "one").id)  # it may be started again


def test_a_process_that_only_has_the_same_number_is_not_running(home: Path):
    job = jobs.Job("0" * 12, ["run"], 1, 0.0, "another birth", "x")
    assert not job.is_running
    folder = home / "jobs" / job.id
    folder.mkdir(parents=True)
    (folder / jobs.JOB).write_text(json.dumps(job.to_json()))
    assert not jobs.listed(home)[0]["running"]


@pytest.mark.parametrize("id", ["", "..", "../../etc", "0" * 12, "a/b", "x" * 200])
def test_unknown_jobs_are_one_line(id: str, home: Path):
    with pytest.raises(InputError, match="there is no job"):
        jobs.read(home, id)


def test_damaged_jobs_are_left_out(home: Path):
    for name, content in (("a" * 12, "{"), ("b" * 12, "[]"), ("c" * 12, '{"id": 3}')):
        (home / "jobs" / name).mkdir(parents=True)
        (home / "jobs" / name / jobs.JOB).write_text(content)
    assert jobs.listed(home) == []


@pytest.mark.parametrize("pid", [0, -1, 1, 2**40])
def test_a_job_of_a_hostile_store_names_no_process(home: Path, pid: int):
    """Process 0 would be the server's own group."""
    job = jobs.Job("0" * 12, ["run"], pid, 0.0, "", "x")
    folder = home / "jobs" / job.id
    folder.mkdir(parents=True)
    (folder / jobs.JOB).write_text(json.dumps(job.to_json()))
    assert not jobs.read(home, job.id).is_running
    jobs.stop(home, job.id)
    ended(home, jobs.start(home, ["--version"], "x").id)


def test_a_study_is_started_once_however_many_pages_ask(home: Path, monkeypatch: pytest.MonkeyPatch):
    script = home.parent / "job.py"
    script.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(jobs, "PROGRAM", [str(script)])
    with ThreadPoolExecutor(4) as pages:
        asked = [pages.submit(jobs.start, home, [], "one") for _ in range(4)]
    started = [one.result() for one in asked if one.exception() is None]
    assert len(started) == 1
    assert all(isinstance(one.exception(), InputError | None) for one in asked)
    jobs.stop(home, started[0].id)
    ended(home, started[0].id)


def test_a_study_that_a_terminal_trains_is_not_started_again(home: Path):
    folder = home / "studies" / "one"
    progress = ProgressFile(folder)
    progress.hear(Note("begun"))
    with pytest.raises(InputError, match="being trained already"):
        jobs.start(home, ["--version"], "one")
    progress.close()
    ended(home, jobs.start(home, ["--version"], "one").id)
