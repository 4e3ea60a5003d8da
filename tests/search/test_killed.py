"""Searches that are killed or stopped, and go on: to what they would have found undisturbed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headtohead.search import Search, read_search
from helpers.runs import reached
from helpers.searches import QUICK, arm, searched, without_times
from helpers.terminal import Running, start, until

LR = "train.optimizer.lr"
LONGER = ["train.steps=40", "evaluate.every=5"]
LISTED, RANGE = "1e-4,1e-3,1e-2", "1e-4..1e-2"


def begin(home: Path, text: Path, over: str, *options: object) -> Running:
    settings = [part for setting in (*QUICK, *LONGER) for part in ("--set", setting)]
    command = ["search", "lm", "--data", text, *settings, "--over", f"{LR}={over}", "--jobs", 1]
    return start(*command, "--json", *options, environment={**os.environ, "HEADTOHEAD_HOME": str(home)})


def midway(home: Path, runs: int) -> bool:
    """So many runs are complete, and another one is under way."""
    folders = list(home.glob("runs/*"))
    left = [f for f in folders if not (f / "result.json").is_file()]
    return len(folders) - len(left) >= runs and any(reached(f) >= 10 for f in left)


def pictures(home: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(home.glob("searches/*/grid.*"))]


@pytest.mark.parametrize(
    ("over", "trials", "moments"), [(LISTED, None, [0, 1]), (RANGE, 13, [10])], ids=["grid", "adaptive"]
)
def test_a_killed_search_resumes_to_the_same_result(
    over: str, trials: int | None, moments: list[int], text: Path, tmp_path: Path
) -> None:
    home, calm = tmp_path / "killed", tmp_path / "calm"
    options: list[Any] = [] if trials is None else ["--trials", trials]
    for runs in moments:
        process = begin(home, text, over, *options)
        until(lambda runs=runs: midway(home, runs))
        process.send(signal.SIGKILL)
        assert process.wait().code == -signal.SIGKILL
        assert not list(home.glob("searches/*/search.json"))
    before = {path: path.stat().st_mtime_ns for path in home.glob("runs/*/result.json")}
    assert len(before) >= moments[-1]
    done = begin(home, text, over, *options).wait()
    assert done.code == 0, done.err
    search = Search(arm(text, *LONGER), {LR: over}, trials)
    undisturbed = searched(search, calm)
    assert without_times(read_search(home / "searches" / search.id).to_json()) == without_times(undisturbed)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())  # nothing was trained again
    assert len(list(home.glob("runs/*"))) == search.count
    assert len(pictures(home)) == 2
    assert pictures(home) == pictures(calm)


def test_ctrl_c_saves_a_search_and_prints_how_to_resume(text: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = begin(home, text, LISTED)
    until(lambda: midway(home, 1))
    process.send(signal.SIGINT)
    done = process.wait()
    assert done.code == 130
    assert "stopped; everything is saved. Type the same command again to continue." in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert list(home.glob("runs/*/checkpoint.safetensors"))
    again = begin(home, text, LISTED).wait()
    assert again.code == 0
    assert len(again.json["trials"]) == 3
    assert "to train, 1 at a time" in again.err
