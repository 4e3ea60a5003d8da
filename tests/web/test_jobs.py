"""Jobs: commands that the page starts outlive the server and are stopped as Ctrl-C would."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from headtohead import InputError
from headtohead.run import files
from headtohead.run.events import Cell, Finished, Progress, Stage, Started
from headtohead.run.progress import ProgressFile, is_alive, read_progress
from headtohead.web import jobs
from headtohead.web.control import command_of, stop_study


def ended(job: jobs.Job, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while job.is_running:
        assert time.monotonic() < end, "the job is still running"
        time.sleep(0.05)


def test_a_job_is_the_command_and_leaves_what_it_printed(tmp_path: Path):
    job = jobs.start(tmp_path, ["list", "runs", "--json"])
    ended(job)
    (found,) = jobs.listed(tmp_path)
    assert found["command"] == ["list", "runs", "--json"]
    assert not found["running"]
    assert "[]" in found["output"] or "runs" in found["output"]


@pytest.mark.parametrize("id", ["", "x", "../../etc", "0" * 12, "0" * 13])
def test_jobs_that_are_not_there_are_named(tmp_path: Path, id: str):
    with pytest.raises(InputError, match="there is no job"):
        jobs.read(tmp_path, id)


def test_a_number_that_another_process_got_is_not_taken_for_the_job():
    job = jobs.Job("0" * 12, [], os.getpid(), 0.0, "1")
    assert not job.is_running


def test_progress_is_written_while_a_study_trains_and_gone_afterwards(tmp_path: Path):
    progress = ProgressFile(tmp_path)
    progress.hear(Stage("runs", [Cell("Rope", 0, "a"), Cell("Rope", 1, "b")]))
    progress.written = 0
    progress.hear(Started("a", 10, 0, 5, {}, []))
    progress.written = 0
    progress.hear(Progress("a", 4, 10, 3.0, 100.0, 6.0))
    found = read_progress(tmp_path)
    assert found is not None
    assert found["running"]["a"] == {
        "arm": "Rope", "seed": 0, "done": 4, "steps": 10, "loss": 3.0, "tokens_per_second": 100.0, "seconds_left": 6.0
    }  # fmt: skip
    progress.written = 0
    progress.hear(Finished("a", str(tmp_path)))
    assert (read_progress(tmp_path) or {})["done"] == 1
    progress.close()
    assert read_progress(tmp_path) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x"}', '{"pid": 4194305}', '{"pid": 1e400}'])
def test_progress_of_a_dead_process_and_damaged_files_are_ignored(tmp_path: Path, content: str):
    (tmp_path / files.PROGRESS).write_text(content)
    assert read_progress(tmp_path) is None
    assert is_alive(os.getpid())


def test_a_store_cannot_name_a_process_to_stop(tmp_path: Path):
    """A store may come from somebody else: only processes of headtohead are stopped."""
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / files.PROGRESS).write_text(json.dumps({"pid": sleeper.pid}))
        with pytest.raises(InputError, match="no headtohead"):
            stop_study(tmp_path)
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()
    (tmp_path / files.PROGRESS).unlink()
    with pytest.raises(InputError, match="not being trained"):
        stop_study(tmp_path)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("h2h run evil.py", "in a terminal"),
        ("h2h run ./x.py:study --seeds 6", "in a terminal"),
        ("rm -rf /", "no command"),
        ("h2h export latest", "no command"),
        ("h2h", "no command"),
        ("", "no command"),
        ("h2h run 'lm", "no command"),
    ],
)
def test_a_store_cannot_choose_what_is_run(store: Path, tmp_path: Path, command: str, said: str):
    study = json.loads((store / "studies" / "tiny" / "study.json").read_text())
    folder = tmp_path / "studies" / "x"
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps({**study, "command": command}))
    with pytest.raises(InputError, match=said):
        command_of(folder)
    (folder / "study.json").write_text(json.dumps({**study, "command": "h2h run lm --vary model.position=Rope"}))
    assert command_of(folder) == ["run", "lm", "--vary", "model.position=Rope"]
