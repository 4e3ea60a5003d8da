"""What a search goes over, and what is proposed: no run is trained here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headtohead import Alibi, InputError, Rope
from headtohead.search import Search
from headtohead.search.space import Choices, Range, read_axis

from .small import arm, points

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
def test_a_range_is_of_its_settings_kind(text: Path, path: str, given: str, low: float, high: float, log: bool) -> None:
    axis = read_axis(arm(text), path, given)
    assert isinstance(axis, Range)
    assert (axis.low, axis.high, axis.log) == (low, high, log)
    assert type(axis.low) is type(low)


def test_a_list_keeps_what_was_typed_and_what_it_means(text: Path) -> None:
    axis = read_axis(arm(text), "model.position", "Rope(theta=500), Alibi")
    assert isinstance(axis, Choices)
    assert axis.said == ("Rope(theta=500)", "Alibi")
    assert axis.values == (Rope(theta=500), Alibi())
    given = read_axis(arm(text), "model.position", [Rope(theta=500), Alibi()])
    assert given.to_json() == ["Rope(theta=500.0)", "Alibi"]
    assert read_axis(arm(text), "train.clip", "none,0.5").to_json() == [None, 0.5]


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "nothing": ({}, {}, "say what to search over"),
    "a setting nobody knows": ({"train.bach": "8,16"}, {}, "did you mean batch?"),
    "a value that is refused": ({"train.batch": "8,0"}, {}, "cannot try train.batch=0: TrainSpec.batch must be"),
    "a part nobody knows": ({"model.position": "Rope,Rop"}, {}, "cannot try model.position=Rop: no position is called"),
    "an end that is refused": ({"train.batch": "0..8"}, {"trials": 2}, "cannot try train.batch=0"),
    "an empty list": ({"train.batch": []}, {}, "has no values to try"),
    "a value twice": ({LR: "1e-3,0.001"}, {}, "has 0.001 twice"),
    "ends the wrong way round": ({LR: "1e-3..1e-5"}, {"trials": 2}, "the lower end comes first"),
    "ends that are one": ({LR: "1e-3..1e-3"}, {"trials": 2}, "the other is above it"),
    "half a range": ({LR: "1e-3.."}, {"trials": 2}, "a range is two numbers"),
    "a range of parts": ({"model.position": "1..2"}, {"trials": 2}, "cannot try model.position=1"),
    "a range of truth values": ({"model.tied": "0..1"}, {"trials": 2}, "model.tied is no number"),
    "a range without a number of trials": ({LR: "1e-5..1e-3"}, {}, "such as --trials 20"),
    "no trials": ({"train.batch": "8,16"}, {"trials": 0}, "--trials is a number from 1 to 10,000, not 0"),
    "too many trials": ({LR: "1e-5..1e-3"}, {"trials": 10_001}, "not 10,001"),
    "as many trials as there are": ({"train.batch": "8,16"}, {"trials": 2}, "leave it out"),
    "a range with fewer values": ({"train.batch": "8..9"}, {"trials": 3}, "all of the 2 combinations there are"),
    "one combination": ({"train.batch": "8"}, {}, "nothing to choose"),
    "too many combinations": (
        {"train.batch": list(range(1, 102)), LR: [n / 1000 for n in range(1, 101)]},
        {},
        "10,100 combinations are more than 10,000",
    ),
    "the data": ({"data.validation": "0.1,0.2"}, {}, "another validation set"),
    "the evaluation": ({"evaluate.stride": "1,2"}, {}, "measured alike"),
    "batches of nothing": ({"train.batch": "8,16"}, {"together": 0}, "from 1 on"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_searched_is_said(what: str, text: Path) -> None:
    over, options, says = WRONG[what]
    with pytest.raises(InputError) as error:
        Search(arm(text), over, **options)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_an_arm_that_watches_the_test_is_refused(text: Path) -> None:
    with pytest.raises(InputError, match=r"--set evaluate.watch_test=false"):
        Search(arm(text, "evaluate.watch_test=true"), {"train.batch": "8,16"})


def test_data_without_a_validation_set_cannot_choose(text: Path) -> None:
    search = Search(arm(text, "data.validation=0"), {"train.batch": "8,16"})
    with pytest.raises(InputError, match="no validation set"):
        _ = search.metric


# -- points and their runs ---------------------------------------------------------------------------------------------


def test_a_run_is_its_point_and_nothing_else(text: Path) -> None:
    search = Search(arm(text), {LR: [0.1, 0.2], "train.optimizer": ["SGD", "AdamW"], "train.batch": "2,3"}, seed=7)
    spec = search.run_at({LR: 0.2, "train.optimizer": "SGD", "train.batch": 3})
    assert str(spec.arm.train.optimizer) == "SGD(lr=0.2)"  # the optimizer first, though the rate was named first
    assert (spec.arm.train.batch, spec.seed) == (3, 7)
    differs = {d.path for d in search.base.arm.diff(spec.arm)}
    assert differs == {"train.optimizer", "train.batch"}
    assert not spec.arm.evaluate.tests
    assert spec == spec.resolved()


def test_settings_that_undo_each_other_are_noticed(text: Path) -> None:
    search = Search(arm(text), {"train.steps": "2,3", "train.epochs": "1,2"})
    with pytest.raises(InputError, match=r"train.steps is undone by another"):
        search.run_at({"train.steps": 2, "train.epochs": 1})


def test_whatever_decides_a_search_is_in_its_id(text: Path) -> None:
    def of(over: Any = None, **options: Any) -> str:
        return Search(arm(text), over or {LR: "1e-4..1e-2"}, **{"trials": 5} | options).id

    ids = [of(), of({LR: "1e-4..2e-2"}), of(trials=6), of(together=2), of(seed=1), of({LR: [1, 2]}, trials=None)]
    ids += [of({LR: [1, 3]}, trials=None), of({"train.batch": [1, 2]}, trials=None)]
    ids += [of({"model.position": f"Rope(theta={theta}),Alibi"}, trials=None) for theta in (5, 6)]
    assert len(set(ids)) == len(ids)
    assert of({LR: [1, 2]}, trials=None, together=2) == ids[5]  # a grid has no batches
    text.write_text(text.read_text() + "and more\n")
    assert of() != ids[0]


# -- proposals ---------------------------------------------------------------------------------------------------------


def test_a_grid_has_every_combination_once(text: Path) -> None:
    over = {"train.batch": [2, 3, 4], LR: [0.1, 0.2], "model.position": ["Rope", "Alibi"], "train.clip": [None, 1.0]}
    found = points(Search(arm(text), over), lambda _: 0.0)
    assert sorted(map(str, (tuple(p.values()) for p in found))) == sorted(map(str, itertools.product(*over.values())))
    assert all(list(p) == list(over) for p in found)
    assert found == points(Search(arm(text), over), lambda _: 1.0)


OVER = {LR: "1e-5..1e-1", "model.dropout": "0..0.5", "train.batch": "2..40"}


def near(best: float) -> Callable[[Any], float]:
    """A loss that is least at this learning rate."""
    return lambda point: (math.log10(point[LR]) - best) ** 2


def test_what_is_proposed_follows_from_seed_and_figures(text: Path) -> None:
    def found(seed: int = 0, together: int = 4, best: float = -4) -> list[dict[str, Any]]:
        return points(Search(arm(text), OVER, trials=22, seed=seed, together=together), near(best))

    first = found()
    assert len(first) == 22
    assert first == found()
    assert first != found(seed=1)
    assert first != found(together=3)
    assert first[:12] == found(best=-2)[:12]  # ten are drawn before any figure matters
    assert first[12:] != found(best=-2)[12:]


def test_the_lower_loss_and_the_higher_accuracy_are_sought(text: Path, table: Path) -> None:
    from headtohead import Arm, Files

    lm = Search(arm(text), OVER, trials=60, together=2)
    classifier = Search(Arm.of("classifier", Files(path=str(table))), OVER, trials=60, together=2)
    for search, figure in ((lm, near(-4)), (classifier, lambda p: -near(-4)(p))):
        late = points(search, figure)[30:]
        assert sum(abs(math.log10(p[LR]) + 4) < 0.7 for p in late) > 20, search.metric


def test_proposals_are_in_range_and_short(text: Path) -> None:
    found = points(Search(arm(text), OVER, trials=40), near(-1))
    assert all(1e-5 <= p[LR] <= 1e-1 and 0 <= p["model.dropout"] <= 0.5 for p in found)
    assert all(type(p["train.batch"]) is int and 2 <= p["train.batch"] <= 40 for p in found)
    assert all(float(f"{p[LR]:.2e}") == p[LR] for p in found)
    narrow = points(Search(arm(text), {"model.dropout": "0.1..0.1004"}, trials=12), lambda _: 0.0)
    assert len({p["model.dropout"] for p in narrow}) == 12


def test_nothing_is_tried_twice(text: Path) -> None:
    found = points(Search(arm(text), {"train.batch": [2, 3, 4, 5, 6], "model.heads": [1, 2]}, trials=9), lambda _: 1.0)
    assert len({str(p) for p in found}) == 9


def test_there_are_more_numbers_in_a_range_than_rounded_ones(text: Path) -> None:
    """A hundred and one, from 0 to 0.1."""
    found = points(Search(arm(text), {"model.dropout": "0..0.1"}, trials=104, together=104), lambda _: 1.0)
    assert len({p["model.dropout"] for p in found}) == 104
    assert all(0 <= p["model.dropout"] <= 0.1 for p in found)


def test_when_tpe_repeats_itself_a_point_is_drawn(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Optuna's sampler may do."""
    from optuna.samplers import TPESampler

    monkeypatch.setattr(TPESampler, "sample_independent", lambda _self, _study, _trial, _name, space: space.choices[0])
    monkeypatch.setattr(TPESampler, "sample_relative", lambda *_: {})
    found = points(Search(arm(text), {"train.batch": [2, 3, 4], "model.heads": [1, 2]}, trials=5), lambda _: 1.0)
    assert len({str(p) for p in found}) == 5


def test_trials_without_a_figure_teach_what_to_avoid(text: Path) -> None:
    """The best rate lies at the edge of where runs diverge. Were those left out, nearly all proposals would diverge."""

    def figure(point: Any) -> float | None:
        return None if point[LR] > 1e-3 else near(-3)(point)

    late = points(Search(arm(text), {LR: "1e-5..1e-1"}, trials=60), figure)[20:]
    assert sum(p[LR] > 1e-3 for p in late) < 25
    points(Search(arm(text), OVER, trials=20), lambda _: None)


def test_optuna_keeps_quiet_and_its_settings(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    points(Search(arm(text), OVER, trials=14), near(-4))
    points(Search(arm(text), {"train.batch": [2, 3]}), lambda _: 0.0)
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before
