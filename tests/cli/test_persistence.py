"""h2h run --scales, h2h run --rates and h2h plan --variance, as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.recipes import RECIPE
from helpers.terminal import h2h

pytestmark = pytest.mark.usefixtures("home", "text", "recipe")  # mine.txt, mine.py


@pytest.fixture
def recipe(text: Path) -> None:
    text.with_name("mine.py").write_text(RECIPE)


def test_scales_print_the_rule_the_sizes_and_the_change():
    command = ["run", "mine.py", "--scales", "1,4", "--seeds", 2, "--jobs", 1]
    done = h2h(*command)
    assert done.code == 0, done.err
    assert done.err.index("Scale s multiplies") < done.err.index("new runs") < done.err.index("seed 0: test/loss")
    assert [line.split()[:2] for line in done.out.splitlines() if line.startswith("× ")] == [["×", "1"], ["×", "4"]]
    assert "Rope: unresolved; 2 pairs do not show that the effect changes" in done.out
    again = h2h(*command, "--json")
    assert again.json["trends"][0]["word"] == "unresolved"
    assert [size["width"] for size in again.json["sizes"]] == [16, 24]
    assert "seed 0: test/loss" not in again.err, "nothing is trained again"


def test_rates_print_where_the_sign_holds():
    command = ["run", "mine.py", "--rates", "1e-3,2e-3", "--seeds", 2, "--jobs", 1]
    done = h2h(*command)
    assert done.code == 0, done.err
    assert "of 2 rates" in done.out
    assert "Best against best (Rope at " in done.out
    said = h2h(*command, "--json").json
    assert said["rates"] == [0.001, 0.002]
    assert said["is_verdict"] is False


def test_variance_ends_with_the_next_run():
    command = ["plan", "mine.py", "--variance", "--levels", 2, "--jobs", 1]
    done = h2h(*command)
    assert done.code == 0, done.err
    assert "The most useful next run is" in done.out
    assert "initial weights" in done.out
    said = h2h(*command, "--arm", "Rope", "--json").json
    assert said["arm"] == "Rope"
    assert [c["source"] for c in said["components"]][:2] == ["initial weights", "batch order"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["run", "mine.py", "--scales", "1,four"], "--scales takes numbers separated by commas"),
        (["run", "mine.py", "--scales", "4"], "two scales or more"),
        (["run", "mine.py", "--scales", "-1,4"], "a scale is a number above zero"),
        (["run", "mine.py", "--rates", ""], "--rates takes numbers separated by commas"),
        (["run", "mine.py", "--rates", "0,1"], "two learning rates or more"),
        (["run", "mine.py", "--rates", "nan,1"], "two learning rates or more"),
        (["run", "mine.py", "--rates", "auto", "--scales", "1,4"], "give one of them"),
        (["run", "mine.py", "--rates", "auto", "--effect", "1%"], "give one of them"),
        (["run", "mine.py", "--scales", "1,4", "--until", "resolved"], "a fixed number of pairs"),
        (["plan", "mine.py", "--arm", "Rope"], "are for --variance"),
        (["plan", "mine.py", "--variance", "--arm", "Rop"], "no arm 'Rop'"),
        (["plan", "mine.py", "--variance", "--levels", 99], "from 2 to the 20 seeds"),
    ],
)
def test_bad_options_are_one_line(options, words):
    done = h2h(*options, "--jobs", 1)
    assert done.code == 2
    assert words in " ".join(done.err.replace("│", " ").split())
    assert "Traceback" not in done.err
