"""The JSON files of a run's folder as typed records."""

from __future__ import annotations

from typing import Any

import pytest

from headtohead.run.results import DAMAGED, Best, Environment, Result, Times

LEAST: dict[str, Any] = {
    "status": "complete",
    "steps": 9,
    "values": {"test/loss": 2.5},
    "data": {"says": ["no", "yes"]},
}


def test_missing_keys_of_older_versions_have_defaults():
    result = Result.from_json(LEAST)
    assert (result.ended, result.weights_of, result.learning, result.best) == ("complete", 9, None, None)
    assert (result.warnings, result.labels, result.is_complete) == ([], ("no", "yes"), True)
    assert Times.from_json({}) == Times()
    assert Environment.from_json({}) == Environment()


def test_keys_of_newer_versions_are_ignored():
    assert Result.from_json({**LEAST, "invented": 1}) == Result.from_json(LEAST)
    assert Times.from_json({"seconds": 2.0, "invented": 1}) == Times(seconds=2.0)


def test_a_result_is_written_as_it_was_read():
    best = {"figure": "validation/loss", "value": 2.0, "step": 6}
    whole = {"ended": "complete", "weights_of": 6, "parameters": 7, "learning": 7, "flops_per_step": 8}
    data = {**LEAST, **whole, "tokens_per_step": 3, "best": best, "warnings": ["careful"]}
    result = Result.from_json(data)
    assert result.best == Best("validation/loss", 2.0, 6)
    assert result.to_json() == data


def test_keys_of_result_json_keep_their_order():
    order = ["status", "ended", "steps", "weights_of", "parameters", "learning", "flops_per_step", "tokens_per_step"]
    assert list(Result.from_json(LEAST).to_json()) == [*order, "values", "best", "data", "warnings"]


@pytest.mark.parametrize("name", LEAST)
def test_a_result_without_a_necessary_key_is_damaged(name: str):
    with pytest.raises(DAMAGED):
        Result.from_json({key: value for key, value in LEAST.items() if key != name})


@pytest.mark.parametrize("data", [None, [], "text", {**LEAST, "values": []}, {**LEAST, "best": 3}])
def test_a_result_of_another_shape_is_damaged(data: Any):
    with pytest.raises(DAMAGED):
        Result.from_json(data)
