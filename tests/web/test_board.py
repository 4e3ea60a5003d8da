"""The board's rows say what the table of verdicts says."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from headtohead.outcome.outcome import load_outcome
from headtohead.outcome.wording import time_text
from headtohead.run.studies import read_study
from headtohead.web.board import board_row
from headtohead.web.study_page import curve_names, curves, study_page
from helpers.stores import stored
from helpers.web import served


def test_a_row_has_the_numbers_of_the_verdicts(store: Path):
    folder = store / "studies" / "tiny"
    row, verdicts = board_row(folder), load_outcome(folder).verdicts
    assert [arm["arm"] for arm in row["arms"]] == [v.arm for v in verdicts]
    for arm, v in zip(row["arms"], verdicts, strict=True):
        assert arm["difference"] == v.verdict.difference
        assert (arm["low"], arm["high"]) == (v.verdict.low, v.verdict.high)
        assert arm["verdict"] == v.verdict.verdict
        assert len(arm["dots"]) == v.verdict.pairs == 6
        assert sum(d for _, d in arm["dots"]) / 6 == pytest.approx(v.verdict.difference)
    assert row["states"] == {"complete": 18}
    json.dumps(row, allow_nan=False)


def test_the_page_of_a_study_has_its_tables_costs_and_runs(store: Path):
    page = study_page(store / "studies" / "tiny")
    (table,) = page["tables"]
    assert table["cells"][1][0] == "Learned (control)"
    assert {c["arm"] for c in table["costs"]} == {"Learned", "Rope", "NoPosition"}
    assert table["differences"]["Rope"][0]["path"] == "model.position"
    assert len(page["run_rows"]) == 18
    json.dumps(page, allow_nan=False)


def test_curves_are_those_of_the_runs(store: Path):
    outcome = load_outcome(store / "studies" / "tiny")
    names = curve_names(outcome)
    assert names[0].endswith("/loss")
    found = curves(outcome.folder, names[0])
    assert [arm["arm"] for arm in found["arms"]] == ["Learned", "Rope", "NoPosition"]
    for arm in found["arms"]:
        assert sorted(arm["seeds"]) == list(range(6))
        assert arm["tokens_per_step"] > 0
        steps = [step for step, _ in arm["seeds"][0]]
        assert steps == sorted(steps)
    assert all(not arm["seeds"] for arm in curves(outcome.folder, "no/such")["arms"])


def test_damage_is_shown_and_the_rest_goes_on(home: Path):
    stored(home, {"Rope": -0.2}, name="whole")
    stored(home, {"Rope": -0.2}, name="run")
    stored(home, {"Rope": -0.2}, name="record")
    hurt = next(iter(list(read_study(home / "studies" / "run").arms)[1].runs.values()))
    (home / "runs" / hurt / "result.json").write_text('{"half')
    (home / "studies" / "record" / "study.json").write_text('{"half')
    with served(home) as server:
        until = time.monotonic() + 60
        while len(rows := {r["name"]: r for r in server.request("/api/board")[1]["rows"]}) < 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert "study.json cannot be read" in rows["record"]["error"]
        assert rows["run"]["states"]["damaged"] == 1
        assert "error" not in rows["whole"]
        status, said, _ = server.request("/api/study?name=record")
        assert (status, "\n" in said["error"]) == (400, False)
        status, said, _ = server.request("/api/study?name=run")
        assert status == 200
        (lost,) = said["failures"]
        assert (lost["status"], lost["seeds"]) == ("damaged", [0])
        assert f"h2h verify {hurt} --repair" in lost["why"]
        for page in ("inside/arms?study=run", "audit/arms?study=run", "curves?name=run&metric=train/loss"):
            assert server.request(f"/api/{page}")[0] == 200
        for page in ("inside/arms?study=record", "audit/arms?study=record", "compose/study?name=record"):
            assert server.request(f"/api/{page}")[0] == 400


def test_units_are_those_of_the_table(home: Path):
    outcome = stored(home, {"Rope": 0.05}, task="classifier")
    (arm,), (table,) = board_row(outcome.folder)["arms"], study_page(outcome.folder)["tables"]
    assert arm["difference_text"] == "+5.00 points"
    assert arm["interval_text"] == table["cells"][2][3]
    assert "%" not in arm["interval_text"]
    assert [c["mean_text"] for c in table["costs"]] == [row[1] for row in table["cells"][1:]]


def test_the_cost_table_has_the_time_of_the_verdicts(store: Path):
    (table,) = study_page(store / "studies" / "tiny")["tables"]
    verdicts = load_outcome(store / "studies" / "tiny").verdicts
    control, *arms = table["costs"]
    assert control["time"] == ""
    for cost, arm, cells, row in zip(arms, table["arms"], table["cells"][2:], verdicts, strict=True):
        assert cost["time"] == cells[table["cells"][0].index("time")]
        assert cost["time"] in arm["cost_text"]
        assert cost["time"] == time_text(row)
        assert cost["step_ms"] / control["step_ms"] - 1 == pytest.approx(row.extra_time)
        assert row.worth.time == row.time


def test_a_study_without_a_pair_has_no_verdict_word(home: Path):
    lost = {(arm, seed): "missing" for arm in ("Learned", "Rope") for seed in range(6)}
    row = board_row(stored(home, {"Rope": -0.3}, lost=lost).folder)
    assert row["sentence"] == "There is no verdict yet: the first pair is not finished."
    (arm,) = row["arms"]
    assert (arm["word"], arm["verdict"], arm["pairs_text"]) == ("first pair not finished", "", "no pairs")
