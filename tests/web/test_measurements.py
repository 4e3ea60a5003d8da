"""What arms cost: counted as the runs themselves count, and limited."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from headtohead import Arm
from headtohead.errors import InputError
from headtohead.web import measurements, measuring
from headtohead.web.measurements import is_large, measure
from helpers.runs import run_on, trained_record


def asked(wish: measuring.Wish, home: Path) -> Any:
    return measure(json.loads(wish.key), home)


def test_figures_are_those_of_the_run(text: Path, home: Path):
    spec = run_on(text, "train.steps=2")
    result = trained_record(spec, home).require_result()
    data, size = asked(measuring.data_of(spec.arm), home), asked(measuring.size_of(spec.arm, ""), home)
    assert (size["parameters"], size["flops"]) == (result.parameters, result.flops_per_step)
    assert data["sets"]["train"]["tokens"] == result.data["sets"]["train"]["tokens"]
    assert data["vocabulary"] == result.data["vocabulary"]
    assert 0.5 < asked(measuring.time_of(spec.arm, ""), home) < 60


def test_a_model_that_sees_the_future_is_named(text: Path, home: Path):
    arm = run_on(text, "model.pattern=Full").arm
    found = asked(measuring.audit_of(arm, ""), home)
    assert "future-tokens" in [one["check"] for one in found["broken"]]
    assert "shows the model the tokens" in asked(measuring.size_of(arm, ""), home)["warnings"][0]
    assert list((home / "audits").iterdir())  # kept for the study


def test_large_models_are_counted_and_not_built(text: Path, home: Path):
    arm = run_on(text, "model.width=4096", "model.layers=24").arm
    found = asked(measuring.size_of(arm, ""), home)
    assert found["parameters"] > 10**9
    assert found["flops"] is None
    with pytest.raises(InputError, match="not audited in the page"):
        asked(measuring.audit_of(arm, ""), home)
    with pytest.raises(InputError, match="not timed in the page"):
        asked(measuring.time_of(arm, ""), home)
    with pytest.raises(InputError, match="not counted in the page"):
        asked(measuring.size_of(run_on(text, "model.layers=1000").arm, ""), home)
    assert is_large(Arm().set("train.batch", 10**6), 1000)
    assert not is_large(Arm(), 300_000)


def test_a_corpus_that_is_not_here_is_not_downloaded(home: Path):
    arm = Arm.of("classifier").set("data.corpus", "MovieReviews")
    with pytest.raises(InputError, match="is not here yet: downloaded at first use"):
        asked(measuring.data_of(arm), home)


def test_questions_are_answered_line_by_line(text: Path, home: Path, monkeypatch: pytest.MonkeyPatch):
    good = measuring.data_of(run_on(text).arm).key
    read, write = os.pipe()
    with os.fdopen(write, "w") as out, os.fdopen(read) as answers:
        monkeypatch.setattr("sys.stdin", io.StringIO(f'{good}\n{{"kind": "data"}}\nnonsense\n'))
        monkeypatch.setattr("sys.stdout", out)
        measurements.main(home)
        found = [json.loads(answers.readline()) for _ in range(3)]
    assert found[0][0]["vocabulary"] == 258
    assert [error != "" for _, error in found] == [False, True, True]
