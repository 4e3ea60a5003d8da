"""The verdict in one sentence: it says what the numbers say, and never more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headtohead.report.sentence import sentence
from helpers.stores import stored

STRONG = re.compile(r"\b(better|worse|equivalent)\b")


def said(home: Path, effects: dict[str, float], **more: Any) -> str:
    return sentence(stored(home, effects, **more).verdicts)


def test_better_and_worse_carry_their_figures(home: Path):
    text = said(home, {"Rope": -0.3})
    assert re.fullmatch(
        r"Rope is better than Learned: −0\.\d{4} nats in test/loss \(95 % interval −0\.\d{4} … −0\.\d{4}, p 0\.035, "
        r"6 pairs\)\.",
        text,
    )
    assert said(home, {"Rope": 0.3}, name="other").startswith("Rope is worse than Learned: +0.")


def test_accuracy_is_higher_and_in_points(home: Path):
    text = said(home, {"Rope": 0.1}, task="classifier", noise=0.002)
    assert text.startswith("Rope is better than Learned: +")
    assert re.search(r": \+\d+\.\d\d points in test/accuracy \(95 % interval \+\d+\.\d\d … \+\d+\.\d\d, p", text)


def test_unresolved_states_the_detectable_difference(home: Path):
    text = said(home, {"Rope": 0.0})
    assert text.startswith("Unresolved: Rope is at ")
    assert re.search(r"That cannot be told from no difference: 6 pairs detect one of 0\.\d{4} nats or more", text)
    assert not STRONG.search(text)


def test_equivalent_names_its_margin(home: Path):
    assert "Rope is equivalent to Learned within ± 0.5000 nats: " in said(home, {"Rope": 0.0}, margin=0.5)


def test_few_pairs_give_no_verdict(home: Path):
    for effects in ({"Rope": -0.3}, {"Rope": -0.3, "Alibi": 5.0}):
        text = said(home, effects, seeds=5, name=f"few{len(effects)}")
        assert text.startswith("Unresolved: 5 pairs only describe, 6 or more decide")
        assert not STRONG.search(text)


def test_several_arms_by_verdict(home: Path):
    text = said(home, {"Rope": -0.3, "Alibi": -0.2, "NoPosition": 0.4, "Sinusoidal": 0.0})
    assert text.startswith("Against Learned in test/loss, 6 pairs, p corrected for 4 arms: Rope is better (−0.")
    sure = r"\([+−]0\.\d{4} nats, 95 % interval [+−]0\.\d{4} … [+−]0\.\d{4}, p 0\.\d{3}\)"
    assert re.search(f"; Alibi is better {sure}; NoPosition is worse {sure}; Sinusoidal is unresolved ", text)
    assert text.endswith("The table has the intervals and p of the others.")


def test_several_decided_arms_are_one_sentence(home: Path):
    text = said(home, {"Rope": -0.3, "Alibi": -0.2, "NoPosition": 0.4, "Sinusoidal": 0.2})
    assert ": Rope and Alibi are better (−0.3000 to −0.2000 nats); NoPosition and Sinusoidal are worse (+0." in text
    assert text.endswith("The table has the intervals and p.")


def test_the_correction_counts_arms_with_enough_pairs(home: Path):
    lost = {("Alibi", seed): "diverged" for seed in range(3)}
    text = said(home, {"Rope": -0.3, "Alibi": -0.2, "NoPosition": 0.4}, lost=lost)
    assert "6 pairs, p corrected for 2 arms: " in text
    assert "Alibi has fewer than 6 pairs and no verdict" in text
    assert text.endswith("3 of 6 pairs of Alibi are lost to divergence.")


def test_many_arms_are_counted(home: Path):
    text = said(home, {f"arm{n}": -0.3 - n / 100 for n in range(9)})
    assert "9 of 9 arms are better" in text
    assert "arm3" not in text


def test_left_out_pairs_are_stated(home: Path):
    text = said(home, {"Rope": -0.3}, seeds=8, lost={("Rope", 1): "diverged", ("Rope", 4): "missing"})
    assert "6 of 8 pairs" in text
    assert "2 of 8 pairs are lost to divergence and runs that are not finished." in text
    assert "the pairs that are left do not speak for those" in text  # not that nothing can be told from them
    assert "cannot be told" not in text
    text = said(home, {"Rope": -0.3}, seeds=8, lost={("Learned", 1): "failed"}, name="control")
    assert text.endswith("1 of 8 pairs is lost to failure of Learned.")
    arms = {f"arm{n}": -0.3 for n in range(5)}
    text = said(home, arms, seeds=8, lost={("Learned", 1): "failed", ("arm2", 2): "failed"}, name="five")
    assert text.endswith("1 to 2 of 8 pairs of 5 arms are lost to failure.")


def test_a_study_of_one_arm_counts_the_seeds_it_has(home: Path):
    text = said(home, {}, lost={("Learned", 1): "diverged"}, again=False)
    assert text.endswith("the mean of 5 seeds. 1 of 6 runs is lost to divergence.")
    every = {("Learned", seed): "failed" for seed in range(6)}
    assert "no run has a value: all 6 are lost to failure." in said(home, {}, lost=every, again=False, name="none")


@pytest.mark.parametrize("status", ["diverged", "failed", "missing"])
def test_an_arm_without_pairs_has_no_verdict(home: Path, status: str):
    every = {("Rope", seed): status for seed in range(6)}
    begins = "There is no verdict yet: the first pair is not" if status == "missing" else "There is no verdict: no seed"
    assert said(home, {"Rope": -0.3}, lost=every).startswith(begins)
    text = said(home, {"Rope": -0.3, "Alibi": -0.3}, lost=every, name="two")
    assert "Alibi is better" in text
    assert "Rope has no pair and no verdict" in text
