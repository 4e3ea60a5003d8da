"""Tuning: on separate seeds, by the validation set."""

from __future__ import annotations

from pathlib import Path

from headtohead.outcome.outcome import load_outcome
from headtohead.run.events import Stage
from headtohead.run.store import Record
from headtohead.study.execution import folder_of
from helpers.runs import events_of
from helpers.studies import carried, study


def test_arms_are_tuned_on_separate_seeds_by_validation(text: Path, home: Path):
    made = study(
        text,
        "train.steps=12",
        seeds=2,
        vary={"model.position": ["Rope"]},
        tune={"train.optimizer.lr": [1e-5, 1e-2, 1e30]},
        tuning_seeds=2,
    )
    events = carried(made, home)
    tuning, then = events_of(Stage, events)
    assert tuning.title == "tuning"
    assert {c.seed for c in tuning.cells} == {1_000_000, 1_000_001}
    assert {c.seed for c in then.cells} == {0, 1}
    assert len(tuning.cells) == 2 * 3 * 2
    for stage, tested in ((tuning, False), (then, True)):
        known = (Record(home / "runs" / cell.id).result.values for cell in stage.cells)
        assert {any(name.startswith("test/") for name in values) for values in known if values} == {tested}
    outcome = load_outcome(folder_of(made, home))
    assert outcome.titles == ["own best", "shared"]
    for told in outcome.record.tuning:
        assert told.metric == "validation/loss"
        assert told.best == {"train.optimizer.lr": 1e-2}
        assert told.grid[2]["value"] is None  # it diverged there
        values = [g["value"] for g in told.grid[:2]]
        assert values[1] < values[0]
        assert told.edge == ()
    assert outcome.table("shared")["Rope"].verdict == outcome.table("own best")["Rope"].verdict
    for arm in outcome.record.tables[0].arms:
        assert arm.spec["train"]["optimizer"]["lr"] == 1e-2


def test_a_best_value_on_the_edge_of_the_grid_gives_a_note(text: Path, home: Path):
    made = study(
        text, "train.steps=12", seeds=2, vary={"model.position": ["Rope"]}, tune={"train.optimizer.lr": [1e-2, 1e-5]}
    )
    carried(made, home)
    notes = made.outcome(home).verdicts.notes
    assert len(notes) == 2
    assert notes[0] == (
        "Learned was best at train.optimizer.lr = 0.01, the edge of the grid: a better value may lie beyond. "
        "Add values there."
    )
