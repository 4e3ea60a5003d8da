"""Which weights a run ends with, and which sets it reads."""

from __future__ import annotations

import math

import pytest
import torch

from headtohead import InputError
from headtohead.arm import RunSpec
from headtohead.runs import Looked, Options, execute
from headtohead.store import Record
from headtohead.tasks import work_on
from headtohead.trained import load_trained
from runs.small import results, run_on, train

# a rate so high that later looks are worse than earlier ones
WILD = ["train.steps=24", "evaluate.every=3", "evaluate.along=none", "train.optimizer=AdamW(lr=1, betas=(0.9, 0.9))"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"line {n} of {n * n % 97} and some {n % 7} more\n" for n in range(300)), encoding="utf-8")
    return path


def looks(events) -> dict[int, float]:
    return {e.done: e.values["validation/loss"] for e in events if isinstance(e, Looked) and e.done}


def record(home, spec: RunSpec) -> Record:
    return Record(home / "runs" / spec.id)


def test_the_best_looks_weights_are_kept(text, tmp_path):
    spec = run_on(text, *WILD, "evaluate.keep=best")
    found = looks(train(spec, tmp_path))
    best = min(found, key=found.__getitem__)
    assert best < 24, "the test is about a run whose last look is not its best"
    result = record(tmp_path, spec).result
    assert result["weights_of"] == best
    assert result["values"]["validation/loss"] == found[best]
    assert not (record(tmp_path, spec).folder / "best.safetensors").exists()
    trained = load_trained(record(tmp_path, spec))
    assert trained.step == best
    assert work_on(spec.arm).look(trained.model, "validation", "cpu").values["loss"] == found[best]
    with pytest.raises(InputError, match="kept no weights of step 24"):
        load_trained(record(tmp_path, spec), 24)


def test_the_last_weights_are_kept_unless_asked(text, tmp_path):
    spec = run_on(text, *WILD)
    found = looks(train(spec, tmp_path))
    result = record(tmp_path, spec).result
    assert (result["weights_of"], result["values"]["validation/loss"]) == (24, found[24])


def test_a_stopped_run_keeps_the_same_best(text, tmp_path):
    spec = run_on(text, *WILD, "evaluate.keep=best")
    train(spec, tmp_path / "whole")
    for _ in range(40):  # stopped at almost every step
        events = execute(spec, tmp_path / "stopped", Options(save_every=0))
        for n, event in enumerate(events):
            if n == 6 or (isinstance(event, Looked) and event.done):
                events.close()
                break
        if record(tmp_path / "stopped", spec).result is not None:
            break
    train(spec, tmp_path / "stopped")
    one, other = (results(record(tmp_path / home, spec).folder) for home in ("whole", "stopped"))
    assert one == other


def test_test_sets_are_left_alone_when_asked(text, tmp_path):
    told = run_on(text, "train.steps=3", "evaluate.tests=false")
    train(told, tmp_path)
    assert not any(key.startswith("test/") for key in record(tmp_path, told).result["values"])
    usual = run_on(text, "train.steps=3")
    train(usual, tmp_path)
    assert math.isfinite(record(tmp_path, usual).result["values"]["test/loss"])
    weights = (load_trained(record(tmp_path, s)).model.state_dict() for s in (told, usual))
    assert all(torch.equal(a, b) for a, b in zip(*(w.values() for w in weights), strict=True))
    with pytest.raises(InputError, match="forbids it"):
        run_on(text, "evaluate.tests=false", "evaluate.watch_test=true")
