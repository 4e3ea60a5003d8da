"""Recipes on synthetic tasks: what they state, and that each runs at its smallest."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from headtohead import load_study, size_curve
from headtohead.spec.userfiles import RECIPES, recipe_names

NAMES = sorted(path.stem for path in (RECIPES / "tasks").glob("*.py"))
SMALLEST = ["train.steps=1", "data.corpus.tested=20", "model.width=8", "model.heads=1", "evaluate.along=8"]


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_states_command_time_and_result(name: str) -> None:
    assert f"tasks/{name}" in recipe_names()
    study = load_study(f"tasks/{name}")
    assert study.name == name
    assert study.command == f"h2h run tasks/{name}"
    assert study.takes.endswith("on two cores")
    assert study.expected
    assert study.measured.endswith("/accuracy")


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_runs_at_its_smallest(name: str, home: Path) -> None:
    study = load_study(f"tasks/{name}")
    settings = [s for s in SMALLEST if not any(s.startswith(f"{path}=") for path in study.paths)]
    outcome = dataclasses.replace(study.set(*settings), seeds=2).run(jobs=1, home=home, progress=False)
    assert {row.status for row in outcome.all_rows} == {"complete"}
    if study.measured.startswith("test/"):
        return
    over = study.measured.partition("_")[0]
    found = size_curve(name, over=over, home=home)
    assert len(found.lines) == len(study.variants)
    assert found.guess is not None
