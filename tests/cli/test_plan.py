"""h2h plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.recipes import RECIPE
from helpers.terminal import h2h

pytestmark = pytest.mark.usefixtures("text")  # mine.txt


@pytest.mark.usefixtures("home", "text")
def test_plan_refuses_a_study_without_arms():
    recipe = (
        'from headtohead import Arm, Files, Study\nalone = Study("?", Arm.of("lm", Files(path="mine.txt")), vary=())\n'
    )
    Path("alone.py").write_text(recipe)
    done = h2h("plan", "alone.py", "--effect", "1%")
    assert done.code == 2
    assert "this study compares nothing" in done.err


def test_plan_states_the_pairs_and_minutes_that_run_uses(home: Path):
    Path("mine.py").write_text(RECIPE)
    done = h2h("plan", "mine.py", "--effect", "20%", "--jobs", 1)
    assert done.code == 0, done.err
    assert "to detect an effect of" in done.out
    assert "pairs" in done.out
    said = h2h("plan", "mine.py", "--effect", "20%", "--jobs", 1, "--json").json
    assert said["pairs"] >= 6
    assert said["minutes"] > 0
    assert said["sd"] > 0
    ran = h2h("run", "mine.py", "--effect", "20%", "--jobs", 1)
    assert ran.code == 0, ran.err
    assert "forecast" in ran.err
    assert "took" in ran.err
    frame = json.loads((home / "studies" / "mine" / "study.json").read_text())
    assert len(frame["seeds"]) == said["pairs"]
