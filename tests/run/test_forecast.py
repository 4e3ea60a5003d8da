"""A run is timed beside others that train the same."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from headtohead import Arm, Files
from headtohead.run.forecast import BackgroundLoad, time_run
from helpers.runs import SMALL

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process has used is read from /proc")


def processor_seconds(process) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def arm(text: Path) -> Arm:
    return Arm.of("lm", Files(path=str(text))).settings([*SMALL, "train.steps=1000000"])


def test_background_load_trains_until_it_is_stopped(arm):
    with BackgroundLoad(1) as load:
        for asked in (arm, arm.set("model.width", 32)):  # one after the other
            assert time_run(asked, load=load).steps == 1_000_000
            (other,) = load.processes
            before = processor_seconds(other)
            time.sleep(0.3)
            assert processor_seconds(other) > before + 0.05
        other.stdin.close()  # as when whoever asked is killed
        assert other.wait(timeout=10) == 0
        other.stdin = None  # nothing is left to be closed


def test_background_load_leaves_no_process(arm):
    with BackgroundLoad(1) as load:
        load.train(arm, 1)
    assert load.processes[0].poll() is not None


def test_a_run_is_timed_without_killed_background_load(arm):
    with BackgroundLoad(1) as load:
        load.train(arm, 1)
        load.processes[0].kill()
        load.processes[0].wait()
        assert time_run(arm, load=load).step_seconds > 0
