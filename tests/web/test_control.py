"""Studies are stopped and continued from their page; a store chooses neither a process nor a command."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.run import files
from headtohead.run.progress import born
from headtohead.run.studies import read_study
from headtohead.web.control import stop_study, words_of
from helpers.stores import stored


def test_a_store_cannot_name_a_process_to_stop(tmp_path: Path):
    """A store may come from somebody else: only the process that wrote progress.json is stopped."""
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        for told in ({}, {"born": ""}, {"born": "1"}):
            (tmp_path / files.PROGRESS).write_text(json.dumps({"pid": sleeper.pid} | told))
            with pytest.raises(InputError, match="not being trained"):
                stop_study(tmp_path)
        for pid in (0, -1, 1):
            (tmp_path / files.PROGRESS).write_text(json.dumps({"pid": pid, "born": ""}))
            with pytest.raises(InputError, match="not being trained"):
                stop_study(tmp_path)
        (tmp_path / files.PROGRESS).write_text(json.dumps({"pid": os.getpid(), "born": born(os.getpid())}))
        with pytest.raises(InputError, match="names this server"):
            stop_study(tmp_path)
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()
    (tmp_path / files.PROGRESS).unlink()
    with pytest.raises(InputError, match="not being trained"):
        stop_study(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "h2h run lm --vary model.position=Rope --set train.steps=3 --max-pairs 30 --futility",
        "h2h run classifier --vary model.pooling=First --data my.csv --seeds 8",
        "h2h run demo",
        "h2h demo",
        "h2h run published/window:window --seeds 6",
    ],
)
def test_commands_that_a_stored_study_may_have(command: str):
    assert words_of(command)[0] in ("run", "demo")


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
        "h2h demo --on=ray:somewhere",
        "h2h export latest",
        "h2h",
        "python -c 1",
    ],
)
def test_commands_that_are_not_started(command: str):
    with pytest.raises(InputError):
        words_of(command)


def test_the_command_of_a_stored_study_is_not_trusted(home: Path):
    stored(home, command="h2h run evil.py")
    with pytest.raises(InputError, match="does not start this study's command"):
        words_of(read_study(home / "studies" / "stored").command)


@pytest.mark.parametrize("place", ["demo.py", "recipes/demo.py"])
def test_a_file_with_the_name_of_a_recipe_is_not_started(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`h2h run demo` takes a demo.py of the current folder first."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / place).write_text("raise SystemExit('executed')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="does not start this study's command"):
        words_of("h2h run demo")
    assert words_of("h2h demo") == ["demo"]  # always the recipe of the package
