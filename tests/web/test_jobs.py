"""Jobs of the page: the command itself, seen by every server of the store, stopped and continued."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from headtohead.errors import InputError
from headtohead.web import jobs
from helpers.stores import stored


def ended(home: Path, id: str) -> dict[str, Any]:
    until = time.monotonic() + 120
    while (found := jobs.shown(home, jobs.read(home, id), 1000))["running"] or found["code"] is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def test_a_job_is_the_command_and_what_it_printed(home: Path):
    job = jobs.start(home, ["list", "studies", "--nonsense"], "x")
    found = ended(home, job.id)
    assert found["code"] == 2
    assert "--nonsense" in found["output"]
    assert not found["ready"]
    assert [one["id"] for one in jobs.listed(home)] == [job.id]


def test_a_job_is_stopped_as_by_ctrl_c(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs.sys, "executable", "/bin/sh")
    script = home.parent / "job.sh"
    script.write_text("sleep 60\n")
    monkeypatch.setattr(jobs, "PROGRAM", [str(script)])
    job = jobs.start(home, [], "one")
    with pytest.raises(InputError, match="being trained already"):
        jobs.start(home, [], "one")
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


@pytest.mark.parametrize(
    "command",
    [
        "h2h run lm --vary model.position=Rope --set train.steps=3 --max-pairs 30 --futility",
        "h2h run classifier --vary model.pooling=First --data my.csv --seeds 8",
        "h2h run demo",
        "h2h run published/window:window --seeds 6",
    ],
)
def test_commands_that_a_stored_study_may_have(command: str):
    assert jobs.words_of(command)[0] == "run"


@pytest.mark.parametrize(
    "command",
    [
        "",
        "rm -rf /",
        "h2h serve --host 0.0.0.0",
        "h2h run mine.py",
        "h2h run lm --vary model.position=mine.py:Wobble",
        "h2h run lm --log-to wandb",
        "h2h run lm --on=ray:somewhere",
        "h2h run 'lm",
        "h2h run nosuch",
        "python -c 1",
    ],
)
def test_commands_that_are_not_started(command: str):
    with pytest.raises(InputError):
        jobs.words_of(command)


def test_the_command_of_a_stored_study_is_not_trusted(home: Path):
    from headtohead.run.studies import read_study

    stored(home, command="h2h run evil.py")
    with pytest.raises(InputError, match="does not start this study's command"):
        jobs.words_of(read_study(home / "studies" / "stored").command)
