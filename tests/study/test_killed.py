"""Fifty kills at random moments during a study of thirty runs: workers, the parent, the whole group. Takes minutes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from headtohead.outcome.outcome import load_outcome
from headtohead.study.execution import folder_of
from helpers.runs import results
from helpers.studies import carried
from helpers.terminal import H2H

RECIPE = """
from headtohead import Arm, Files, Study

study = Study(
    question="?",
    control=Arm.of("lm", Files(path={text!r})).settings({settings!r}),
    vary={{"model.position": ["Learned", "Rope", "NoPosition", "Alibi", "Sinusoidal"]}},
    seeds=5,
    name="thirty",
)
"""


def one_of(pids: list[int], draw: random.Random) -> int | None:
    return draw.choice(pids) if pids else None


def children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(p) for p in found]


@pytest.mark.slow
def test_fifty_kills_change_no_bit(text: Path, home: Path, tmp_path: Path):
    settings = ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4"]
    settings += ["train.steps=400", "model.dropout=0.1"]
    recipe = tmp_path / "thirty.py"
    recipe.write_text(RECIPE.format(text=str(text), settings=settings))
    draw = random.Random(0)
    kills, calls = {"worker": 0, "parent": 0, "group": 0}, 0
    command = [H2H, "run", str(recipe), "--jobs", "2", "--save-every", "0", "--json"]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    finished_when: dict[str, float] = {}
    process = start()
    while sum(kills.values()) < 50:
        time.sleep(draw.uniform(0.5, 9.0))
        for done in (home / "runs").glob("*/result.json"):  # a run that is complete is never touched again
            changed = done.stat().st_mtime_ns
            assert finished_when.setdefault(done.parent.name, changed) == changed
        if process.poll() is not None:
            calls += 1
            if process.returncode == 0:
                break
            process = start()
            continue
        kind = draw.choice(["worker", "parent", "group"])
        if kind == "worker":
            victim = one_of(children(process.pid), draw)
            if victim is None:
                continue
            os.kill(victim, signal.SIGKILL)
        elif kind == "parent":
            os.kill(process.pid, signal.SIGKILL)
        else:
            os.killpg(process.pid, signal.SIGKILL)
        kills[kind] += 1
    print(kills, calls)
    while process.poll() is None or process.returncode != 0:
        if process.poll() is not None:
            process = start()
        process.wait(timeout=600)
    from headtohead.study.recipes import recipe as read

    made = read(str(recipe))
    calm = tmp_path / "calm"
    carried(made, calm, jobs=2)
    assert len(list((calm / "runs").iterdir())) == 30
    for run in (calm / "runs").iterdir():
        assert results(run) == results(home / "runs" / run.name)
    tables = [load_outcome(folder_of(made, h)).to_json()["tables"][0] for h in (home, calm)]
    for table in tables:  # time is the machine's, not the study's
        for row in (*table["arms"], table["noise_floor"]):
            row.pop("extra_time")
    assert json.dumps(tables[0]) == json.dumps(tables[1])
    assert not list((home / "runs").glob("*/.*.unfinished"))
    assert not list((home / "runs").glob("*/checkpoint*"))
