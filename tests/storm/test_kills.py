"""SIGKILL at random moments of many small runs: every run ends in the bits of an undisturbed one, nothing is damaged.

The short form has a handful of kills, the long form (`--slow`) has 1,000.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from headtohead.run.executors import local as workers
from headtohead.run.verify import verify
from helpers.corpora import write_text
from helpers.runs import results, run_on, train

STEPS = ["train.steps=9", "evaluate.every=3", "evaluate.snapshots=3", "evaluate.keep=best", "model.dropout=0.1"]
SEEDS = 4
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(workers.PRELOADED)


def work(text: str, home: str) -> None:
    """Train all runs, with a checkpoint after each step."""
    for seed in range(SEEDS):
        train(run_on(Path(text), *STEPS, seed=seed), Path(home), save_every=0)


def changes(home: Path) -> int:
    """A number that grows when a file of a run is written."""
    return max((path.stat().st_mtime_ns for path in (home / "runs").glob("*")), default=0)


def storm(text: Path, home: Path, draw: random.Random, most: int) -> int:
    """Kill the worker at random moments after its first change of the store until all runs are complete; the number of
    kills."""
    kills = 0
    while True:
        process = SERVER.Process(target=work, args=(str(text), str(home)))
        process.start()
        before = changes(home)
        while process.exitcode is None and changes(home) == before:
            process.join(0.005)
        process.join(draw.expovariate(1 / 0.15) if kills < most else 300)
        if process.exitcode is None:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.join()
        if process.exitcode == 0:
            return kills
        assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("wanted", [6, pytest.param(1000, marks=pytest.mark.slow)])
def test_kills_change_no_bit(
    wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    text, calm, home = write_text(tmp_path), tmp_path / "calm", tmp_path / "home"
    work(str(text), str(calm))
    draw, kills = random.Random(wanted), 0
    while kills < wanted:
        shutil.rmtree(home, ignore_errors=True)
        kills += storm(text, home, draw, wanted - kills)
        folders = sorted((home / "runs").iterdir())
        assert [folder.name for folder in folders] == sorted(folder.name for folder in (calm / "runs").iterdir())
        for folder in folders:  # nothing is set aside, and nothing is left over
            assert results(folder) == results(calm / "runs" / folder.name)
            assert not [name for name in os.listdir(folder) if name.startswith((".", "checkpoint", "best"))]
        assert verify(home=home).problems == []
    counts["no bit lost"] += kills
