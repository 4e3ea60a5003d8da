"""h2h check-claim: the same answer as Python, one line for what it cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest

import headtohead
from helpers.stores import stored
from helpers.terminal import Type, is_one_line

CLAIM = "Rope beats Learned by 0.02 nats, one run each"


def test_the_command_and_python_agree(type_in: Type, home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    stored(home)
    for words, options in (
        ([], {}),
        (["--paired"], {"paired": True}),
        (["--sd", "0.01", "--sd-runs", "5", "--runs", "2"], {"sd": 0.01, "sd_runs": 5, "runs": 2}),
        (["--tried", "4", "--study", "positions-positions"], {"tried": 4, "study": "positions-positions"}),
        (["--difference", "-0.04", "--control-runs", "3"], {"difference": -0.04, "control_runs": 3}),
        (["--spread", "0.01", "--spread-is", "se", "--runs", "4"], {"spread": 0.01, "spread_is": "se", "runs": 4}),
    ):
        found = headtohead.check_claim(CLAIM, **options)  # type: ignore[arg-type]
        assert type_in("check-claim", CLAIM, *words, "--json").json == found.to_json()
        done = type_in("check-claim", CLAIM, *words)
        assert done.code == 0
        assert done.out.rstrip("\n") == str(found)


def test_options_need_no_sentence(type_in: Type):
    words = ["--difference", "1.2", "--runs", "1", "--metric", "test/accuracy", "--task", "classifier", "--sd", "0.8"]
    said = type_in("check-claim", *words, "--json").json
    assert said["claim"]["difference"] == pytest.approx(0.012)
    assert said["answer"]["chance"] == pytest.approx(0.2888, abs=1e-3)
    named = type_in("check-claim", *words, "--variant", "Rope", "--control", "Learned", "--json").json
    assert named["commands"][0] == "h2h run classifier --vary model.position=Learned,Rope"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "say the claim"),
        (["Rope beats Learned by 1.2 points"], "--runs 1"),
        (["Rope beats Learned, one run each"], "--difference"),
        (["Rope beats Learned by 1.2, one run each"], "--metric"),
        (["Rope beats Learned by 3 perplexity, one run each"], "--control-mean"),
        (["Rope beats Learned by 1.2 points, one run each, 7"], "7 is in the sentence"),
        ([CLAIM, "--sd", "0"], "--sd is a number above zero"),
        ([CLAIM, "--study", "position-positions"], "did you mean positions-positions"),
        ([CLAIM, "--metric", "loss"], "SET/FIGURE"),
        ([CLAIM, "--runs", "x"], "Invalid value for '--runs'"),
        ([CLAIM, "--task", "tree"], "tree"),
    ],
)
def test_what_is_missing_is_one_line(type_in: Type, words: list[str], says: str):
    is_one_line(type_in("check-claim", *words), says)
