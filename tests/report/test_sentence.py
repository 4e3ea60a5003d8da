"""The verdict in one sentence: it says what the numbers say, and never more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headtohead.report.sentence import sentence
from report.stored import stored

STRONG = re.compile(r"\b(better|worse|equivalent)\b")


def said(home: Path, effects: dict[str, float], **more: Any) -> str:
    return sentence(stored(home, effects, **more).verdicts())


def test_better_and_worse_carry_their_figures(home: Path):
    text = said(home, {"Rope": -0.3})
    assert re.fullmatch(
        r"Rope is better than Learned: −0\.\d{4} nats in test/loss \(95 % interval −0\.\d{4} … −0\.\d{4}, p 0\.031, "
        r"6 pairs\)\.",
        text,
    )
    assert said(home, {"Rope": 0.3}, name="other").startswith("Rope is worse than Learned: +0.")


def test_accuracy_is_higher_and_in_points(home: Path):
    text = said(home, {"Rope": 0.1}, task="classifier", noise=0.002)
    assert text.startswith("Rope is better than Learned: +")
    assert "percentage points" in text


def test_nothing_found_is_unresolved_and_says_what_would_have_been_seen(home: Path):
    text = said(home, {"Rope": 0.0})
    assert text.startswith("Unresolved: Rope is at ")
    assert "they would see 0.0" in text
    assert not STRONG.search(text)


def test_equivalent_names_its_margin(home: Path):
    assert "Rope is equivalent to Learned within ± 0.5000 nats: " in said(home, {"Rope": 0.0}, margin=0.5)


def test_few_pairs_decide_nothing(home: Path):
    for effects in ({"Rope": -0.3}, {"Rope": -0.3, "Alibi": 5.0}):
        text = said(home, effects, seeds=5, name=f"few{len(effects)}")
        assert text.startswith("Unresolved: 5 pairs only describe, 6 or more decide")
        assert not STRONG.search(text)


def test_several_arms_by_verdict(home: Path):
    text = said(home, {"Rope": -0.3, "Alibi": -0.2, "NoPosition": 0.4, "Sinusoidal": 0.0})
    assert text.startswith("Against Learned, Rope and Alibi are better (−0.")
    assert "; NoPosition is worse (+0." in text
    assert "; Sinusoidal is unresolved (" in text
    assert text.endswith("in test/loss, 6 pairs, p corrected for 4 arms.")


def test_many_arms_are_counted(home: Path):
    text = said(home, {f"arm{n}": -0.3 - n / 100 for n in range(9)})
    assert "9 of 9 arms are better" in text
    assert "arm3" not in text


def test_pairs_that_are_left_out_are_said(home: Path):
    text = said(home, {"Rope": -0.3}, seeds=8, lost={("Rope", 1): "diverged", ("Rope", 4): "missing"})
    assert "6 of 8 pairs" in text


@pytest.mark.parametrize("status", ["diverged", "failed", "missing"])
def test_no_pairs_no_verdict(home: Path, status: str):
    every = {("Rope", seed): status for seed in range(6)}
    assert said(home, {"Rope": -0.3}, lost=every).startswith("There is no verdict: no seed has both Learned and")
    text = said(home, {"Rope": -0.3, "Alibi": -0.3}, lost=every, name="two")
    assert "Alibi is better" in text
    assert "Rope has no pair and no verdict" in text
