"""What the page tells beside the verdicts is what the store has."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from headtohead import Causal, Local, RMSNorm
from headtohead.outcome.outcome import load_outcome
from headtohead.report import facts
from headtohead.report.number_text import far_off
from headtohead.report.study_curves import along, notes, says
from helpers.stores import stored


def test_configuration_shows_only_differences(home: Path):
    outcome = stored(home)
    found = facts.configurations(outcome, "")
    assert list(found) == ["Rope", "Alibi"]
    assert [tuple(s) for s in found["Rope"]] == [("model.position", "Learned", "Rope(theta=101)")]
    settings = dict(facts.control_settings(outcome, ""))
    assert settings["model.position"] == "Learned"
    assert settings["model.width"] == "64"
    assert "kind" not in "".join(settings)


def test_a_knob_of_the_same_part_is_named_by_its_path(home: Path):
    outcome = stored(home, {"one": 0.0, "two": 0.0})
    arms = outcome.record.tables[0].arms
    arms[0].spec["model"]["position"] = arms[1].spec["model"]["position"]
    arms[2].spec["train"]["batch"] = 7
    found = facts.configurations(outcome, "")
    assert found["one"] == []
    assert {s.path for s in found["two"]} == {"model.position.theta", "train.batch"}


def test_patterns_show_their_window_and_norms_no_usual_knobs(home: Path):
    outcome = stored(home, {"window": 0.0, "norm": 0.0})
    _, window, norm = outcome.record.tables[0].arms
    window.spec["model"]["pattern"] = (Causal() & Local(8)).to_json()
    norm.spec["model"]["norm"] = RMSNorm().to_json()
    found = facts.configurations(outcome, "")
    assert ("model.pattern", "Causal", "Causal & Local(window=8)") in found["window"]
    assert ("model.norm", "LayerNorm", "RMSNorm") in found["norm"]
    assert dict(facts.control_settings(outcome, ""))["model.norm"] == "LayerNorm(eps=1e-05, bias=yes)"


def test_a_knob_that_an_old_run_does_not_name_has_its_default(home: Path):
    outcome = stored(home, {"one": 0.0})
    control, arm = outcome.record.tables[0].arms
    del control.spec["model"]["dropout"]
    arm.spec["model"]["dropout"] = 0.5
    assert ("model.dropout", "0", "0.5") in facts.configurations(outcome, "")["one"]


def test_failures_are_listed_by_arm_and_reason(home: Path):
    lost = {("Rope", 0): "diverged", ("Rope", 3): "diverged", ("Alibi", 1): "missing", ("Learned", 2): "failed"}
    found = facts.failures(stored(home, lost=lost, seeds=8))
    assert {(f.arm, f.status, f.seeds) for f in found} == {
        ("Rope", "diverged", (0, 3)),
        ("Alibi", "missing", (1,)),
        ("Learned", "failed", (2,)),
    }
    assert next(f.why for f in found if f.status == "failed") == "out of memory"
    assert facts.failures(stored(home, name="whole")) == []


def test_confusions_are_summed_without_collapsed_runs(home: Path):
    outcome = stored(home, {"Rope": 0.05}, task="classifier", lost={("Rope", 2): "collapsed"})
    learned, rope = facts.confusions(outcome, "")
    assert (learned.seeds, rope.seeds) == (6, 5)
    assert learned.labels == ("obama", "wbush", "hbush")
    assert [sum(row) for row in learned.counts] == [600] * 3
    assert learned.share(0, 0) == pytest.approx(0.8, abs=0.05)
    assert facts.confusions(stored(home, name="lm"), "") == []


def test_different_machines_are_listed(home: Path):
    outcome = stored(home)
    (one,) = facts.machines(outcome)
    assert one.runs == 24
    assert one.facts["packages"] == "torch 2.13.0, numpy 2.4.6"
    assert "started" not in one.facts
    file = next((home / "runs").iterdir()) / "env.json"
    file.write_text(json.dumps({"python": "3.11.0"}))
    assert [m.runs for m in facts.machines(outcome)] == [23, 1]
    file.write_text("{torn")
    assert [m.runs for m in facts.machines(outcome)] == [23]


def test_costs_come_from_complete_runs_only(home: Path):
    learned, rope, alibi = facts.costs(stored(home, lost={("Rope", n): "diverged" for n in range(5)}), "")
    assert (learned.arm, learned.step_ms, learned.flops, learned.parameters) == ("Learned", 8.0, 10**9, 100_000)
    assert len(rope.values) == 1
    assert alibi.number == 2
    assert alibi.seconds == pytest.approx(5.0)


def test_a_diverged_run_does_not_cut_the_curve_of_its_arm(home: Path):
    found = along(stored(home, lost={("Rope", 0): "diverged"}), "")
    assert found is not None
    steps, values = found.lines["Rope"]
    assert steps == list(range(0, 501, 50))
    assert len(values) == 5
    assert found.first == 50


def test_seeds_of_curves_are_counted_arm_by_arm(home: Path):
    def over(lost, effects=None):
        found = along(stored(home, effects, lost=lost, name=f"n{len(lost)}"), "")
        assert found is not None
        return found.over_seeds()

    assert over({}) == "over 6 seeds"
    assert over({("Rope", 0): "diverged"}) == "over 6 seeds, of Rope 5"
    five = {f"arm{n}": 0.0 for n in range(5)}
    assert over({(arm, 1): "failed" for arm in five}, five) == "over 5 to 6 seeds, as many as each arm has"


def test_an_exploding_curve_is_cut_and_stated(home: Path):
    lost = {("Gone", seed): "diverged" for seed in range(5)} | {("Gone", 5): "missing"}
    outcome = stored(home, {"Rope": -0.01, "Boom": 1e5, "Gone": 0.0}, lost=lost)
    found = along(outcome, "")
    assert found is not None
    assert found.beyond == ["Boom"]
    assert found.top < 10
    assert notes(found) == (
        "Beyond the edge, where arrows point: Boom, which reaches 100,007 and ends at 100,003. "
        "Not drawn: Gone, of which 5 of its runs diverged and 1 of its runs is missing."
    )
    assert notes(found) in says(found)
    calm = along(stored(home, name="calm"), "")
    assert calm is not None
    assert (calm.beyond, calm.top, notes(calm)) == ([], math.inf, "")


@pytest.mark.parametrize(
    ("reaches", "far"),
    [
        ({"a": 0.01, "b": 0.02, "c": 1e5, "d": 2e5}, {"c", "d"}),
        ({"a": 0.01, "b": 0.3}, set()),
        ({"a": 0.0, "b": 0.3}, set()),  # one that changes nothing is no scale
        ({"a": 0.0, "b": 400.0}, {"b"}),
        ({"a": 1e5}, set()),
        ({}, set()),
    ],
)
def test_far_off_finds_outliers(reaches, far):
    assert far_off(reaches, 3.0) == far


def test_warnings_of_runs_are_listed_once(home: Path):
    outcome = stored(home)
    for row in outcome.all_rows:
        path = home / "runs" / row.run / "result.json"
        said = json.loads(path.read_text())
        said["warnings"] = ["67% overlap", *(["it reads ahead"] if row.arm == "Rope" else [])]
        path.write_text(json.dumps(said))
    assert load_outcome(outcome.folder).warnings == ["67% overlap", "Rope: it reads ahead"]


def test_warnings_of_a_diverged_arm_are_listed(home: Path):
    lost = {("Rope", seed): "diverged" for seed in range(6)} | {("Alibi", 0): "diverged"}
    outcome = stored(home, lost=lost)
    for row in outcome.all_rows:
        path = home / "runs" / row.run / "result.json"
        said = json.loads(path.read_text())
        said["warnings"] = [f"{row.status}, seed {row.seed}"] if row.arm in ("Rope", "Alibi") else []
        path.write_text(json.dumps(said))
    found = load_outcome(outcome.folder).warnings
    assert found == ["Rope: diverged, seed 0", "Alibi: complete, seed 1"]


def test_differences_are_seed_by_seed(home: Path):
    outcome = stored(home, lost={("Rope", 2): "missing"})
    found = outcome.differences("")
    assert set(found["Rope"]) == {0, 1, 3, 4, 5}
    assert sum(found["Alibi"].values()) / 6 == pytest.approx(outcome.verdicts["Alibi"].verdict.difference)


def test_failures_of_tuned_arms_are_listed_by_table(home: Path):
    outcome = stored(home, {"Rope": -0.3}, lost={("Rope", 0): "diverged"})
    tables = tuple(dataclasses.replace(table, title="own best") for table in outcome.record.tables)
    outcome = dataclasses.replace(outcome, record=dataclasses.replace(outcome.record, tables=tables))
    assert [(f.arm, f.seeds) for f in facts.failures(outcome)] == [("Rope, own best", (0,))]
