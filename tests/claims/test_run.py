"""How long a reproduction takes is told by a few steps of each control, and by what its arms took beside it when they
were stored."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from headtohead import Arm
from headtohead.claims import run
from headtohead.claims import stored as kept
from headtohead.claims.experiments import Experiment
from headtohead.claims.run import Need, needs
from headtohead.outcome.outcome import load_outcome
from headtohead.run.forecast import BackgroundLoad, RunTime
from helpers.studies import study

SECONDS = {"Learned": [10.0] * 6, "Rope": [60, 1, 40, 2, 50, 3], "NoPosition": [4.0] * 6}
FASTEST = {"Learned": 10.0, "Rope": 1.5, "NoPosition": 4.0}  # the mean of an arm's fastest third


def timed(monkeypatch: pytest.MonkeyPatch, seconds: float, blind: float | None = None) -> None:
    """A run of any arm takes so long, one that does not read the test sets perhaps less."""

    def time_run(arm: Arm, load: BackgroundLoad) -> RunTime:
        assert load.others == 0  # one job
        return RunTime(1, 0.0, seconds if arm.evaluate.tests or blind is None else blind)

    monkeypatch.setattr(run, "time_run", time_run)


@pytest.fixture
def stored(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A study as its recipe says it, kept with times by hand; a run takes twice as long here as it took there."""
    what = study(trained.parent / "mine.txt", "evaluate.snapshots=3", seeds=6, metric="validation/loss", again=False)
    where = tmp_path / "recipes"
    file = where / run.STORED / "tiny.json"
    outcome = load_outcome(next(trained.glob("studies/*")))
    kept.write(outcome, file)
    said = json.loads(file.read_text())
    for run_of_again in said["study"]["again"].values():
        del said["runs"][run_of_again]
    said["study"] |= {"id": what.id, "again": {}}
    for arm, seconds in SECONDS.items():
        for row, took in zip(outcome.rows["", arm], seconds, strict=True):
            said["runs"][row.run]["times"] = {"seconds": took / 2, "other_seconds": took / 2}
    file.write_text(json.dumps(said))
    timed(monkeypatch, 20.0)

    def need(home: Path, times: int = 1, as_stored: bool = False, **changes) -> list[Need]:
        asked = dataclasses.replace(what, **changes)
        if as_stored:
            file.write_text(json.dumps(said | {"study": said["study"] | {"id": asked.id}}))
        experiment = Experiment("tiny", {"tiny": asked}, (), (), (), None, ())
        return needs([experiment] * times, quick=False, home=home, where=where)

    return outcome, need


def test_forecasts_scale_the_fastest_third_of_stored_runs(stored, tmp_path):
    _, need = stored
    (found,) = need(tmp_path / "empty")
    assert (found.study, found.runs) == ("tiny", 18)
    assert found.seconds == pytest.approx(2 * 6 * sum(FASTEST.values()))


def test_runs_that_studies_share_are_trained_once(stored, tmp_path):
    _, need = stored
    assert need(tmp_path / "empty", times=2) == need(tmp_path / "empty")


def test_trained_runs_take_no_time(stored, trained, tmp_path):
    outcome, need = stored
    assert need(trained) == []
    some = tmp_path / "some"
    for arm in ("Learned", "Rope"):
        for row in outcome.rows["", arm][:4]:
            shutil.copytree(trained / "runs" / row.run, some / "runs" / row.run)
    (found,) = need(some)
    assert found.runs == 10
    assert found.seconds == pytest.approx(2 * (2 * 10.0 + 2 * 1.5 + 6 * 4.0))


def test_a_changed_recipe_is_timed_by_its_own_steps(stored, tmp_path, monkeypatch):
    _, need = stored
    timed(monkeypatch, 7.0)
    (found,) = need(tmp_path / "empty", seeds=8)
    assert found.runs == 24
    assert found.seconds == pytest.approx(24 * 7.0)


def test_runs_after_tuning_are_counted_before_tuning(stored, tmp_path, monkeypatch):
    _, need = stored
    timed(monkeypatch, 1.0, blind=0.5)
    rates = {"train.optimizer.lr": [1e-3, 1e-2]}
    (found,) = need(tmp_path / "empty", tune=rates, tuning_seeds=1)
    # 3 arms × 6 seeds at the shared rate, 3 × 2 trials, and at most 2 × 6 at the arms' own best
    assert found.runs == 18 + 6 + 12
    assert found.seconds == pytest.approx(18 * 1.0 + 6 * 0.5 + 12 * 1.0)


def test_rates_that_tuning_did_not_choose_are_not_counted(stored, tmp_path):
    outcome, need = stored
    rates = {"train.optimizer.lr": [1e-3, 1e-2]}
    given = Arm.from_json(outcome.record.tables[0].control.spec).set("train.optimizer.lr", 0.5)
    (found,) = need(tmp_path / "empty", as_stored=True, control=given, tune=rates, tuning_seeds=1)
    assert found.runs == 18 + 6  # those that are stored, and 3 × 2 trials
