"""Real searches over tiny models: what is trained, what is chosen, when the test sets are read."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from headtohead import Arm, Files, InputError
from headtohead.run.events import Started
from headtohead.run.forecast import Forecast, RunTime
from headtohead.run.searches import TrialRecord
from headtohead.search import Proposed, Search, Searched, ranked, run_search
from headtohead.search import execution as carry
from headtohead.search.space import point_text
from helpers.runs import SMALL, train
from helpers.searches import arm, points, results, searched, without_times

LR = "train.optimizer.lr"
GRID = {LR: [1e-4, 1e-2], "train.batch": [2, 3]}


def test_a_grid_chooses_the_best_by_validation(text: Path, home: Path) -> None:
    said = searched(Search(arm(text), GRID), home)
    assert {tuple(t["settings"].values()) for t in said["trials"]} == {(a, b) for a in GRID[LR] for b in (2, 3)}
    assert len(results(home)) == len(said["trials"]) == 4
    assert [t["number"] for t in said["trials"]] == [0, 1, 2, 3]
    values = [r["values"]["validation/loss"] for r in results(home)]
    chosen = said["trials"][said["chosen"]]
    assert chosen["value"] == min(values)
    assert sorted(t["value"] for t in said["trials"]) == sorted(values)
    assert (said["metric"], said["better"], said["sampler"]) == ("validation/loss", "lower", "grid")
    assert said["edges"] == [LR, "train.batch"]  # of two values each is an end


def test_a_classifier_is_chosen_by_the_highest_accuracy(table: Path, home: Path) -> None:
    base = Arm.of("classifier", Files(path=str(table))).settings([*SMALL, "train.steps=30"])
    said = searched(Search(base, {LR: [1e-6, 1e-2]}), home)
    assert said["metric"] == "validation/accuracy"
    figures = {t["settings"][LR]: t["value"] for t in said["trials"]}
    assert figures[1e-2] > figures[1e-6]
    assert said["trials"][said["chosen"]]["settings"] == {LR: 1e-2}
    assert "test/confusion" in said["test"]


def test_a_tie_goes_to_the_first_trial(text: Path, home: Path) -> None:
    said = searched(Search(arm(text), {"train.clip": [1e6, 2e6, 3e6]}), home)  # cuts nothing
    assert len({t["value"] for t in said["trials"]}) == 1
    assert (said["chosen"], said["tied"]) == (0, 2)
    rows = [TrialRecord(n, {}, None, "complete", v) for n, v in enumerate([2.0, None, 1.0, 1.0, 3.0])]
    assert [r.number for r in ranked(rows, "validation/loss")] == [2, 3, 0, 4, 1]
    assert [r.number for r in ranked(rows, "validation/accuracy")] == [4, 0, 2, 3, 1]


# -- the test sets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["last", "best"])
def test_test_sets_are_read_for_the_chosen_trial_only(text: Path, home: Path, tmp_path: Path, keep: str) -> None:
    longer = ["train.steps=12", "evaluate.every=3", "model.dropout=0.3"]
    search = Search(arm(text, f"evaluate.keep={keep}", *longer), {LR: [1e-4, 0.1]})
    said = searched(search, home)
    for result in results(home):
        assert not any(name.startswith("test/") for name in result["values"])
    spec = search.run_at(said["trials"][said["chosen"]]["settings"])
    alone = dataclasses.replace(spec, arm=spec.arm.set("evaluate.tests", True))
    (result,) = results(tmp_path / "alone") if train(alone, tmp_path / "alone") else []
    assert said["test"] == {k: v for k, v in result["values"].items() if k.startswith("test/")}  # to the bit
    assert said["trials"][said["chosen"]]["value"] == result["values"]["validation/loss"]


def test_test_sets_are_read_once(text: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    reading = carry._test_values
    monkeypatch.setattr(carry, "_test_values", lambda spec, record: read.append(record.id) or reading(spec, record))
    search = Search(arm(text), GRID)
    said = searched(search, home)
    assert read == [said["trials"][said["chosen"]]["run"]]
    for weights in home.glob("runs/*/model.safetensors"):
        weights.unlink()
    events = list(run_search(search, home, jobs=1))
    assert events == [Searched(str(home / "searches" / search.id), already=True)]
    assert len(read) == 1
    assert searched(search, home) == said


def test_a_search_works_without_test_sets(text: Path, home: Path) -> None:
    assert searched(Search(arm(text, "data.test=0"), {LR: [1e-4, 1e-2]}), home)["test"] == {}


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_diverged_and_failed_trials_are_ranked_last(text: Path, home: Path) -> None:
    over = {"train.optimizer": ["SGD(lr=1e30)", "AdamW"], "model.block": [16, 100_000]}
    said = searched(Search(arm(text), over), home)
    status = {tuple(t["settings"].values()): t["status"] for t in said["trials"]}
    assert status == {
        ("SGD(lr=1e30)", 16): "diverged",
        ("SGD(lr=1e30)", 100_000): "failed",
        ("AdamW", 16): "complete",
        ("AdamW", 100_000): "failed",
    }
    assert said["trials"][said["chosen"]]["settings"] == {"train.optimizer": "AdamW", "model.block": 16}
    lost = [t for t in said["trials"] if t["status"] != "complete"]
    assert all(t["why"] and t["value"] is None for t in lost)
    assert len(list((home / "searches").glob("*/grid.*"))) == 2


def test_without_a_successful_trial_nothing_is_chosen(text: Path, home: Path) -> None:
    with pytest.raises(InputError, match="none of the 2 trials has a value to choose by; the first: diverged at step"):
        searched(Search(arm(text), {"train.optimizer": ["SGD(lr=1e30)", "SGD(lr=1e32)"]}), home)
    assert not list(home.glob("searches/*/search.json"))


def test_an_impossible_grid_is_refused_before_training(text: Path, home: Path) -> None:
    with pytest.raises(InputError, match=r"model.width=18, model.heads=4 do not go together"):
        list(run_search(Search(arm(text), {"model.width": [16, 18], "model.heads": [2, 4]}), home, jobs=1))
    assert not home.exists()


def test_an_impossible_tpe_trial_is_ranked_last(text: Path, home: Path) -> None:
    search = Search(arm(text), {"model.width": "16..24", "model.heads": [2, 4]}, trials=6, together=3)
    said = searched(search, home)
    failed = [t for t in said["trials"] if t["status"] == "failed"]
    assert failed
    assert all(t["run"] is None and "heads" in t["why"] for t in failed)
    assert len(results(home)) == 6 - len(failed)


def test_a_trial_with_a_damaged_result_is_trained_again(text: Path, home: Path) -> None:
    search = Search(arm(text), {LR: [1e-4, 1e-2]})
    said = searched(search, home)
    best = said["trials"][said["chosen"]]
    (home / "runs" / best["run"] / "result.json").write_text("{")
    (home / "searches" / search.id / "search.json").unlink()
    again = searched(search, home)
    assert without_times(again) == without_times(said)
    assert (home / "runs" / f"{best['run']}.damaged-1" / "result.json").read_text() == "{"


def test_a_search_file_not_ours_is_refused(text: Path, home: Path) -> None:
    search = Search(arm(text), {LR: [1e-4, 1e-2]})
    (home / "searches" / search.id).mkdir(parents=True)
    for wrong in ("{", "[]", '{"format": 99}'):
        (home / "searches" / search.id / "search.json").write_text(wrong)
        with pytest.raises(InputError, match="set it aside"):
            list(run_search(search, home, jobs=1))


# -- the same again ----------------------------------------------------------------------------------------------------

TPE = {LR: "1e-4..1e-1", "train.batch": "2..4"}


def test_parallel_trials_give_the_same_search(text: Path, tmp_path: Path) -> None:
    """Ten trials are drawn, one is proposed by what came of them."""
    search = Search(arm(text, "train.steps=2"), TPE, trials=11, together=10)
    said = [without_times(searched(search, tmp_path / f"{jobs}", jobs)) for jobs in (1, 2)]
    assert said[0] == said[1]
    figures = {point_text(t["settings"]): t["value"] for t in said[0]["trials"]}
    assert points(search, lambda point: figures[point_text(point)]) == [t["settings"] for t in said[0]["trials"]]
    assert len(figures) == 11


def test_stored_trials_are_not_trained_again(text: Path, home: Path) -> None:
    searched(Search(arm(text), {LR: [1e-4, 1e-2]}), home)
    events = list(run_search(Search(arm(text), {LR: [1e-4, 1e-3, 1e-2]}), home, jobs=1))
    assert sum(isinstance(event, Started) for event in events) == 1
    assert [e.runs for e in events if isinstance(e, Forecast)] == [1]


def test_a_search_killed_before_its_choice_makes_the_same_choice(text: Path, home: Path) -> None:
    said = searched(Search(arm(text), GRID), home)
    (path,) = home.glob("searches/*/search.json")
    path.unlink()
    events = list(run_search(Search(arm(text), GRID), home, jobs=1))
    assert not any(isinstance(event, Started | Forecast) for event in events)
    assert events[-1].record.to_json() == said


def test_a_search_over_tokenizers_uses_bits_per_byte(text: Path, home: Path) -> None:
    said = searched(Search(arm(text), {"tokenizer": ["Byte", "Word"]}), home)
    assert said["metric"] == "validation/bits_per_byte"
    assert len({t["value"] for t in said["trials"]}) == 2


# -- the forecast ------------------------------------------------------------------------------------------------------


def test_the_forecast_comes_first_and_trains_nothing(text: Path, home: Path) -> None:
    search = Search(arm(text), {LR: [1e-4, 1e-2], "train.batch": [2, 3, 4]})
    (said,) = run_search(search, home, jobs=2, forecast_only=True)
    assert isinstance(said, Forecast)
    assert (said.runs, said.jobs) == (6, 2)
    assert said.seconds is not None
    assert 0 < said.seconds < 120
    assert not home.exists()
    events = run_search(search, home, jobs=1)
    assert isinstance(next(events), Forecast)
    assert isinstance(next(events), Proposed)
    events.close()


@pytest.mark.parametrize(
    ("over", "trials", "jobs", "seconds"),
    [
        ({LR: [1e-4, 1e-2]}, None, 1, 2 * 200.5),
        ({LR: [1e-4, 1e-2]}, None, 2, 200.5 + 4),
        ({LR: [1e-4, 1e-2], "train.steps": [100, 200]}, None, 1, 2 * (200.5 + 400.5)),
        ({LR: "1e-4..1e-2"}, 20, 1, 20 * 200.5),
        ({LR: "1e-4..1e-2"}, 20, 4, 5 * (200.5 + 4)),
        ({LR: "1e-4..1e-2"}, 20, 3, 5 * (2 * 200.5 + 4)),  # four at a time by three: the fourth comes after them
    ],
)
def test_the_forecast_follows_from_the_step_time(
    over: dict[str, Any], trials: int | None, jobs: int, seconds: float, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[int | None] = []

    def two_seconds_a_step(arm: Arm, _threads: int, _load: object) -> RunTime:
        timed.append(arm.train.steps)
        return RunTime(arm.train.steps or 0, 2.0, 0.0)

    monkeypatch.setattr("headtohead.run.forecast.time_run", two_seconds_a_step)
    (said,) = run_search(Search(arm(text, "train.steps=100"), over, trials), jobs=jobs, forecast_only=True)
    assert isinstance(said, Forecast)
    assert said.seconds == pytest.approx(seconds)
    assert len(timed) == 1  # neither the rate nor the number of steps changes what one takes


def test_a_trial_that_cannot_be_timed_uses_the_others(text: Path) -> None:
    def foretold(*blocks: int) -> Forecast:
        search = Search(arm(text), {"model.block": blocks})
        (said,) = run_search(search, jobs=1, forecast_only=True)
        assert isinstance(said, Forecast)
        return said

    assert foretold(16, 100_000).seconds
    assert foretold(100_000, 200_000) == Forecast(2, 1, None)
