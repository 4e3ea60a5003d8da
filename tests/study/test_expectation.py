"""What is said about a study before its first pair."""

from __future__ import annotations

from pathlib import Path

from headtohead.study.expectation import expected_plan
from helpers.studies import QUICK, shown, study


def test_nothing_is_known_without_pairs(text: Path, home: Path):
    assert expected_plan(study(text), "1%", 2.0, 2, home) is None


def test_earlier_studies_with_the_same_control_are_used_and_named(text: Path, home: Path):
    earlier = study(text, *QUICK, seeds=3, vary={"model.position": ["Rope"]}, name="earlier")
    shown(earlier, home)
    later = study(text, *QUICK, vary={"model.norm": ["RMSNorm"]}, name="later")
    plan = expected_plan(later, "10%", 2.0, 2, home)
    assert plan is not None
    assert list(plan.arms) == ["RMSNorm"]
    assert "study earlier" in plan.of_noisiest.sd_from
    assert plan.run_seconds == 2.0
    assert any("study earlier" in line for line in plan.lines())
    other = study(text, *QUICK, "model.dropout=0.1", vary={"model.norm": ["RMSNorm"]}, name="other")
    assert expected_plan(other, "10%", 2.0, 2, home) is None


def test_own_pairs_count_for_their_arm(text: Path, home: Path):
    own = study(text, *QUICK, seeds=3)
    shown(own, home)
    plan = expected_plan(own, "10%", 2.0, 2, home)
    assert plan is not None
    assert list(plan.arms) == ["Rope", "NoPosition"]
    assert plan.arms["Rope"].sd_from.startswith("3 complete pairs (study tiny)")
