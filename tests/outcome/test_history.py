"""Every time that verdicts are shown is written into study.json, once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from headtohead.outcome.history import note_shown
from headtohead.outcome.outcome import Outcome
from headtohead.run.studies import read_study, write_study
from helpers.stores import stored
from helpers.terminal import h2h


def history(outcome: Outcome) -> list:
    return list(read_study(outcome.folder).history)


def test_verdicts_that_are_shown_are_written_down_once(home: Path):
    outcome = stored(home, {"Rope": -0.5, "NoPosition": 0.0})
    note_shown(outcome)
    note_shown(outcome)
    (only,) = history(outcome)
    assert only.pairs == {"Rope": 6, "NoPosition": 6}
    assert only.verdicts == {row.arm: row.verdict.verdict for row in outcome.verdicts}
    assert (only.metric, only.margin, only.number) == (outcome.metric, None, 1)


def test_other_verdicts_are_another_entry(home: Path):
    outcome = stored(home, {"Rope": -0.5})
    note_shown(outcome)
    record = dataclasses.replace(read_study(outcome.folder), margin=10.0)
    write_study(outcome.folder, record)
    note_shown(Outcome(outcome.folder, record))
    first, second = history(outcome)
    assert (first.margin, second.margin) == (None, 10.0)
    assert second.verdicts == {"Rope": "equivalent"}


def test_a_report_notes_that_verdicts_were_shown(home: Path):
    outcome = stored(home, {"Rope": -0.5})
    for _ in range(2):
        assert h2h("report", outcome.folder.name, "--quick").code == 0
    assert len(history(outcome)) == 1


def test_a_study_without_pairs_shows_nothing(home: Path):
    outcome = stored(home, {"Rope": -0.5}, lost={("Rope", seed): "failed" for seed in range(6)})
    note_shown(outcome)
    assert history(outcome) == []
