"""What a search goes over, and what is proposed: no run is trained here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headtohead import Alibi, InputError, Rope
from headtohead.search import Search
from headtohead.search.space import Choices, Range, read_axis
from helpers.searches import arm

LR = "train.optimizer.lr"


# -- lists and ranges --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "given", "low", "high", "log"),
    [
        (LR, "1e-5..1e-3", 1e-5, 1e-3, True),
        (LR, "1e-4 .. 5e-4", 1e-4, 5e-4, False),  # less than a factor of ten
        (LR, "1..100", 1.0, 100.0, True),  # the setting is no whole number, however it is typed
        ("model.dropout", "0..0.5", 0.0, 0.5, False),
        ("train.batch", "4..64", 4, 64, False),
        ("train.epochs", "1..3", 1, 3, False),
    ],
)
def test_a_range_has_the_type_of_its_setting(
    text: Path, path: str, given: str, low: float, high: float, log: bool
) -> None:
    axis = read_axis(arm(text), path, given)
    assert isinstance(axis, Range)
    assert (axis.low, axis.high, axis.log) == (low, high, log)
    assert type(axis.low) is type(low)


def test_a_list_keeps_the_typed_text_and_its_value(text: Path) -> None:
    axis = read_axis(arm(text), "model.position", "Rope(theta=500), Alibi")
    assert isinstance(axis, Choices)
    assert axis.texts == ("Rope(theta=500)", "Alibi")
    assert axis.values == (Rope(theta=500), Alibi())
    given = read_axis(arm(text), "model.position", [Rope(theta=500), Alibi()])
    assert given.to_json() == ["Rope(theta=500.0)", "Alibi"]
    assert read_axis(arm(text), "train.clip", "none,0.5").to_json() == [None, 0.5]


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "nothing": ({}, {}, "give settings to search over"),
    "a setting nobody knows": ({"train.bach": "8,16"}, {}, "did you mean batch?"),
    "a value that is refused": ({"train.batch": "8,0"}, {}, "cannot try train.batch=0: TrainSpec.batch must be"),
    "a part nobody knows": ({"model.position": "Rope,Rop"}, {}, "cannot try model.position=Rop: no position is called"),
    "an end that is refused": ({"train.batch": "0..8"}, {"trials": 2}, "cannot try train.batch=0"),
    "an empty list": ({"train.batch": []}, {}, "has no values to try"),
    "a value twice": ({LR: "1e-3,0.001"}, {}, "has 0.001 twice"),
    "ends the wrong way round": ({LR: "1e-3..1e-5"}, {"trials": 2}, "give the smaller number first"),
    "ends that are one": ({LR: "1e-3..1e-3"}, {"trials": 2}, "give the smaller number first"),
    "half a range": ({LR: "1e-3.."}, {"trials": 2}, "give two numbers"),
    "a range of parts": ({"model.position": "1..2"}, {"trials": 2}, "cannot try model.position=1"),
    "a range of truth values": ({"model.tied": "0..1"}, {"trials": 2}, "model.tied is not a number"),
    "a range without a number of trials": ({LR: "1e-5..1e-3"}, {}, "such as --trials 20"),
    "no trials": ({"train.batch": "8,16"}, {"trials": 0}, "--trials is a number from 1 to 10,000, not 0"),
    "too many trials": ({LR: "1e-5..1e-3"}, {"trials": 10_001}, "not 10,001"),
    "as many trials as there are": ({"train.batch": "8,16"}, {"trials": 2}, "leave it out"),
    "a range with fewer values": ({"train.batch": "8..9"}, {"trials": 3}, "not fewer than the 2 combinations"),
    "one combination": ({"train.batch": "8"}, {}, "only one combination"),
    "too many combinations": (
        {"train.batch": list(range(1, 102)), LR: [n / 1000 for n in range(1, 101)]},
        {},
        "10,100 combinations are more than 10,000",
    ),
    "the data": ({"data.validation": "0.1,0.2"}, {}, "another validation set"),
    "the evaluation": ({"evaluate.stride": "1,2"}, {}, "measured the same way"),
    "batches of nothing": ({"train.batch": "8,16"}, {"together": 0}, "1 or larger"),
}


@pytest.mark.parametrize("what", WRONG)
def test_settings_that_cannot_be_searched_are_refused(what: str, text: Path) -> None:
    over, options, says = WRONG[what]
    with pytest.raises(InputError) as error:
        Search(arm(text), over, **options)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_an_arm_that_watches_the_test_set_is_refused(text: Path) -> None:
    with pytest.raises(InputError, match=r"--set evaluate.watch_test=false"):
        Search(arm(text, "evaluate.watch_test=true"), {"train.batch": "8,16"})


def test_data_without_a_validation_set_is_refused(text: Path) -> None:
    search = Search(arm(text, "data.validation=0"), {"train.batch": "8,16"})
    with pytest.raises(InputError, match="no validation set"):
        _ = search.metric


# -- points and their runs ---------------------------------------------------------------------------------------------


def test_the_run_of_a_point_differs_only_in_its_settings(text: Path) -> None:
    search = Search(arm(text), {LR: [0.1, 0.2], "train.optimizer": ["SGD", "AdamW"], "train.batch": "2,3"}, seed=7)
    spec = search.run_at({LR: 0.2, "train.optimizer": "SGD", "train.batch": 3})
    assert str(spec.arm.train.optimizer) == "SGD(lr=0.2)"  # the optimizer first, though the rate was named first
    assert (spec.arm.train.batch, spec.seed) == (3, 7)
    differs = {d.path for d in search.base.arm.diff(spec.arm)}
    assert differs == {"train.optimizer", "train.batch"}
    assert not spec.arm.evaluate.tests
    assert spec == spec.resolved()


def test_settings_that_override_each_other_are_refused(text: Path) -> None:
    search = Search(arm(text), {"train.steps": "2,3", "train.epochs": "1,2"})
    with pytest.raises(InputError, match=r"another searched setting overrides train.steps"):
        search.run_at({"train.steps": 2, "train.epochs": 1})


def test_every_option_of_a_search_is_in_its_id(text: Path) -> None:
    def of(over: Any = None, **options: Any) -> str:
        return Search(arm(text), over or {LR: "1e-4..1e-2"}, **{"trials": 5} | options).id

    ids = [of(), of({LR: "1e-4..2e-2"}), of(trials=6), of(together=2), of(seed=1), of({LR: [1, 2]}, trials=None)]
    ids += [of({LR: [1, 3]}, trials=None), of({"train.batch": [1, 2]}, trials=None)]
    ids += [of({"model.position": f"Rope(theta={theta}),Alibi"}, trials=None) for theta in (5, 6)]
    assert len(set(ids)) == len(ids)
    assert of({LR: [1, 2]}, trials=None, together=2) == ids[5]  # a grid has no batches
    text.write_text(text.read_text() + "and more\n")
    assert of() != ids[0]
