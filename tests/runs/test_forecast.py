"""A run is timed beside others that train the same."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from headtohead import Arm, Files
from headtohead.forecast import Company, forecast
from runs.small import SMALL

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process has used is read from /proc")


def processor_seconds(process) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def arm(text: Path) -> Arm:
    return Arm.of("lm", Files(path=str(text))).settings([*SMALL, "train.steps=1000000"])


def test_the_others_train_as_long_as_somebody_is_there(arm):
    with Company(1) as company:
        for asked in (arm, arm.set("model.width", 32)):  # one after the other
            assert forecast(asked, company=company).steps == 1_000_000
            (other,) = company.processes
            before = processor_seconds(other)
            time.sleep(0.3)
            assert processor_seconds(other) > before + 0.05
        other.stdin.close()  # as when whoever asked is killed
        assert other.wait(timeout=10) == 0
        other.stdin = None  # nothing is left to be closed


def test_nobody_is_left_behind(arm):
    with Company(1) as company:
        company.train(arm, 1)
    assert company.processes[0].poll() is not None


def test_what_others_cannot_train_is_timed_without_them(arm):
    with Company(1) as company:
        company.train(arm, 1)
        company.processes[0].kill()
        company.processes[0].wait()
        assert forecast(arm, company=company).step_seconds > 0
