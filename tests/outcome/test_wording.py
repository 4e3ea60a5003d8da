"""The lines below a table: floors with their names, chance findings, published effects, arms judged without a plan."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from headtohead.outcome.equivalents import Ratio
from headtohead.outcome.outcome import Outcome
from headtohead.outcome.wording import analysis_text, excluded, floor_text, lines_under, pairs_text, time_text, word
from headtohead.run import store
from helpers.stores import stored

DESIGN = {"analyses": [6, 8, 10, 14, 20], "reserve": 0.1, "rule": "flips", "alpha": 0.05}
NEW_FIELDS = ("alone_low", "alone_high", "estimate", "inner_low", "inner_high", "analysis", "analyses", "spent")


def with_chaos(home: Path, **given) -> Outcome:
    other = stored(home, {}, name="other", noise=1e-7)
    chaos = {str(seed): run for seed, run in list(other.record.again.items())[:3]}
    return stored(home, {"Rope": -0.3}, chaos=chaos, **given)


def test_both_floors_have_names_of_their_own(home: Path):
    verdicts = with_chaos(home).verdicts
    new, chaos = lines_under(verdicts)[:2]
    assert new.startswith("the control against itself, new runs (other batch order, 6 pairs): ")
    assert "time per step" in new
    assert chaos.startswith(
        "the control against itself, numerical chaos (same batches, weights perturbed by 1e-6, 3 pairs): "
    )
    assert "e-07" in chaos  # too small for the usual digits
    assert "time per step" not in chaos
    assert "chance finding" not in new + chaos


def test_a_floor_that_comes_out_significant_is_a_chance_finding(home: Path):
    outcome = with_chaos(home)
    better = stored(home, {"Rope": -0.3}, name="better").record.tables[0].arms[1].runs
    odd = dataclasses.replace(outcome, record=dataclasses.replace(outcome.record, again=better))
    assert odd.verdicts.noise is not None
    assert odd.verdicts.noise.verdict.is_real
    assert "; zero lies outside, which is a chance finding: the true difference is zero" in floor_text(
        odd.verdicts, "noise"
    )


def test_a_study_without_floors_has_no_line_of_them(home: Path):
    assert not any("against itself" in line for line in lines_under(stored(home, again=False).verdicts))


@pytest.mark.parametrize(("published", "says"), [(-0.3, "compatible"), (-0.5, "excluded"), (0.0, "excluded")])
def test_a_published_difference_is_excluded_or_compatible(home: Path, published: float, says: str):
    verdicts = stored(home, {"Rope": -0.3}, published=published).verdicts
    (line,) = [line for line in lines_under(verdicts) if "published" in line]
    assert line.endswith(f"is {says}")
    assert excluded(published, verdicts["Rope"]) == (says == "excluded")
    few = stored(home, {"Rope": -0.3}, published=published, seeds=3, name="few").verdicts
    assert not any("published" in line for line in lines_under(few))


def test_an_arm_added_later_is_judged_without_a_plan(home: Path):
    planned = stored(home, {"Rope": -0.3}, seeds=20, design=DESIGN, name="planned").verdicts["Rope"]
    assert (planned.verdict.analysis, planned.verdict.planned, planned.verdict.pairs) == (1, True, 6)
    assert analysis_text(planned) == "1 of 5, 3.1 %"
    later = stored(home, {"Rope": -0.3}, seeds=20, design=DESIGN, later=["Rope"]).verdicts
    v = later["Rope"].verdict
    assert (v.verdict, v.planned, v.analysis, v.pairs, v.spent) == ("better", False, 0, 20, 0.0)
    assert v.high < 0
    assert analysis_text(later["Rope"]) == "not planned"
    assert "Rope: decided by the test for unplanned analyses (anytime-valid)" in lines_under(later)
    few = stored(home, {"Rope": -0.3}, seeds=6, design=DESIGN, later=["Rope"], name="few").verdicts["Rope"]
    assert few.verdict.verdict == "unresolved"  # six pairs are too few for it
    assert analysis_text(few) == "–"


def test_resolved_alone_is_said_where_it_is_true(home: Path):
    arms = {f"arm {n}": 0.0 for n in range(5)}
    verdicts = stored(home, {"Rope": 0.018, **arms}, noise=0.012).verdicts
    row = verdicts["Rope"]
    assert (row.verdict.verdict, row.verdict.resolved_alone) == ("unresolved", True)
    assert any(
        line.startswith("Rope: resolved alone (") and "not among 6 arms" in line for line in lines_under(verdicts)
    )


def test_the_margin_names_the_pairs_that_it_needs(home: Path):
    verdicts = stored(home, {"Rope": 0.0}, margin=0.005, noise=0.02).verdicts
    needed = verdicts["Rope"].verdict.pairs_for_margin
    assert needed is not None
    assert needed > 6
    line = f"Rope: if it is equal, about {needed:,} pairs show it within the margin of ±0.0050"
    assert line in lines_under(verdicts)


def test_json_has_the_new_fields(home: Path):
    table = json.loads(json.dumps(store.plain(with_chaos(home, published=-0.1).verdicts.to_json())))
    (row,) = table["arms"]
    for name in (*NEW_FIELDS, "planned", "pairs_for_margin", "smallest_effect", "low", "high", "p", "p_alone"):
        assert name in row
    assert "pairs_needed" not in row
    assert table["plan"] == "Plan: one analysis, of 6 pairs."
    assert table["planned"] == {"analyses": [6], "reserve": 0.1, "rule": "flips", "alpha": 0.05}
    assert table["published"] == -0.1
    assert (table["noise_floor"]["pairs"], table["chaos_floor"]["pairs"]) == (6, 3)


@pytest.mark.parametrize(
    ("share", "time", "says"),
    [
        (0.139, Ratio(1.139, 1.091, 1.189, 6), "+13.9 % (+9.1 … +18.9 %)"),
        (-0.1, Ratio(0.9, 0.42, 1.93, 6), "not measurable (−58.0 … +93.0 %)"),
        (0.5, Ratio(1.5, 0.01, 700.0, 2), "not measurable (−99.0 … over +1000 %)"),
        (0.139, None, "+13.9 % (one pair)"),
        (None, None, "–"),
    ],
)
def test_a_time_has_its_range_or_is_not_measurable(share: float | None, time: Ratio | None, says: str, home: Path):
    row = stored(home, {"Rope": -0.3}).verdicts["Rope"]
    assert time_text(dataclasses.replace(row, extra_time=share, time=time)) == says


def test_without_a_pair_there_is_no_verdict_word(home: Path):
    lost = {("Rope", seed): "missing" for seed in range(6)} | {("Alibi", seed): "diverged" for seed in range(6)}
    verdicts = stored(home, lost=lost, design=DESIGN).verdicts
    assert (word(verdicts["Rope"]), word(verdicts["Alibi"])) == ("first pair not finished", "no pair")
    assert pairs_text(verdicts["Rope"], verdicts) == "no pairs, first analysis after 6 pairs"
    assert not any("describe" in line for line in lines_under(verdicts))
    one = stored(home, lost={("Rope", seed): "missing" for seed in range(1, 6)}, design=DESIGN, name="one").verdicts
    assert pairs_text(one["Rope"], one) == "1 pair, first analysis after 6 pairs"


def test_differences_of_shares_are_points_and_levels_percent(home: Path):
    verdicts = stored(home, {"Rope": 0.05}, task="classifier", margin=0.01, published=0.02).verdicts
    lines = [line for line in lines_under(verdicts) if not line.startswith(("training", "scope", "Plan"))]
    assert any("the published +2.00 points is" in line for line in lines)
    assert not any(" %" in line.replace("80 % power", "").partition("; time per step")[0] for line in lines)
