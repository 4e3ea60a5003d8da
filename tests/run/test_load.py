"""Trained models from the store: the last weights, those of a step, and those of the start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from headtohead import InputError, Record, load_trained
from headtohead.run import store
from headtohead.run.load import load_steps, snapshot_steps
from headtohead.training.evaluate import EvalSpec
from helpers.runs import run_on, trained_record


def test_snapshots_are_evenly_spread(snapshot_home, ids):
    assert snapshot_steps(store.find_run(ids[0], snapshot_home)) == [0, 10, 20, 30, 40]
    assert EvalSpec(snapshots=3).snapshot_steps(5) == {0, 3, 5}
    assert EvalSpec(snapshots=1).snapshot_steps(5) == {5}
    assert EvalSpec(snapshots=9).snapshot_steps(4) == {0, 1, 2, 3, 4}


def test_step_0_is_rebuilt_without_its_snapshot(snapshot_home, ids):
    kept = store.find_run(ids[0], snapshot_home)
    before = {k: v.clone() for k, v in load_trained(kept, 0).model.state_dict().items()}
    (kept.folder / "snapshots" / "step-00000000.safetensors").rename(kept.folder / "aside")
    try:
        again = load_trained(kept, 0).model.state_dict()
    finally:
        (kept.folder / "aside").rename(kept.folder / "snapshots" / "step-00000000.safetensors")
    assert all((again[k] == v).all() for k, v in before.items()), "the seed's own weights"


def test_load_steps_loads_each_step(snapshot_home, ids):
    record = store.find_run(ids[0], snapshot_home)
    seen = [(t.step, t.model.trunk.tokens.weight.clone()) for t in load_steps(record, [0, 20, None])]
    assert [step for step, _ in seen] == [0, 20, 40]
    for step, weight in seen:
        assert (load_trained(record, step).model.trunk.tokens.weight == weight).all()
    assert not (seen[0][1] == seen[1][1]).all()


def test_a_trained_model_needs_no_corpus(text: Path, home: Path, tmp_path: Path) -> None:
    made = trained_record(run_on(text, "train.steps=3"), home)
    text.unlink()
    shutil.rmtree(tmp_path / "cache")
    moved = tmp_path / "moved" / made.id
    shutil.copytree(made.folder, moved)
    assert load_trained(Record(moved)).vocabulary.size == 258


def test_damaged_weights_are_one_line(text: Path, home: Path) -> None:
    made = trained_record(run_on(text, "train.steps=2"), home)
    os.truncate(made.folder / "model.safetensors", 999)
    with pytest.raises(InputError, match=r"is damaged: model\.safetensors has 999 bytes, not .*--repair"):
        load_trained(made)
