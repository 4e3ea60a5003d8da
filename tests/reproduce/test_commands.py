"""`h2h reproduce` from the command line, on a report of one tiny experiment."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runs.small import SMALL, h2h

FIGURES = """
[doc000]
title = "A tiny report"
rope = { loss = 0.001 }
claims = ["Rotary positions beat learned ones"]
"""
RECIPE = f"""
from headtohead import Arm, Files, Study
from headtohead.reproduce import Better, Claim, Shown

mine = Study(
    question="Do rotary positions help?",
    control=Arm.of("lm", Files(path="mine.txt")).settings({[*SMALL, "train.steps=4"]!r}),
    vary={{"model.position": ["Learned", "Rope"]}},
    seeds=6,
    again=False,
    metric="validation/loss",
    command="h2h run recipes/published/mine.py",
)
QUICK = ("train.steps=2",)


def measure(record):
    return {{"twice/loss": 2 * record.result["values"]["validation/loss"]}}


shown = [
    Shown("doc000.rope.loss", mine, "Rope", "validation/loss"),
    Shown("doc000.rope.loss", mine, "Rope", "twice/loss", unlike="twice"),
]
words = dict(because="They turn.", only="in four steps", revised="six pairs, not three.")
claims = [Claim("000.1", Better(mine, "Rope"), **words)]
"""


@pytest.fixture
def clone(text: Path) -> Path:
    assert text.name == "mine.txt"
    folder = Path("recipes/published")
    folder.mkdir(parents=True)
    (folder / "figures.toml").write_text(FIGURES)
    (folder / "mine.py").write_text(RECIPE)
    Path("docs").mkdir()
    Path("README.md").write_text("Before.\n\n<!-- stored: claims -->\nold\n<!-- /stored -->\n\nAfter.\n")
    return folder


def test_from_training_to_the_ledger(clone):
    forecast = h2h("reproduce", "000", "--forecast-only", "--json", "--jobs", "1").json
    assert [s["runs"] for s in forecast["studies"]] == [12]
    done = h2h("reproduce", "000", "--keep", "--jobs", "1")
    assert done.code == 0, done.err
    assert "forecast: " in done.err
    assert "Rotary positions beat learned ones: holds, in four steps" in done.out
    assert "twice" in done.out
    assert (clone / "measured" / "mine.json").is_file()
    # again: nothing to train, the same bits
    again = h2h("reproduce", "000")
    assert "everything is trained already" in again.err
    assert "12 of 12 runs are those stored with the recipes, to the last bit" in again.err
    assert again.out == done.out
    # from what is kept alone
    stored = h2h("reproduce", "--stored", "--json", environment={**os.environ, "HEADTOHEAD_HOME": "elsewhere"}).json
    (claim,) = stored["claims"]
    assert claim["id"] == "000.1"
    assert len(claim["findings"][0]["runs"]) == 12
    first, second = stored["figures"]
    assert second["mean"] == pytest.approx(2 * first["mean"])
    assert first["mark"] == "worse"
    assert h2h("reproduce", "--claims").code == 0
    page = Path("docs/claims.md").read_text()
    assert "It **holds**, in four steps. They turn." in page
    assert "*Changed after earlier results had been seen*: Six pairs, not three." in page
    assert all(run in page for run in claim["findings"][0]["runs"])
    readme = Path("README.md").read_text()
    assert readme.startswith("Before.\n\n<!-- stored: claims -->\nOf 1 claim 1 holds")
    assert readme.endswith("<!-- /stored -->\n\nAfter.\n")
    # a recipe that has changed is not what is stored, and its runs are those that are missing
    for old, new, runs in (("seeds=6", "seeds=8", 4), ("train.steps=4", "train.steps=5", 12)):
        (clone / "mine.py").write_text(RECIPE.replace(old, new))
        told = h2h("reproduce", "000", "--forecast-only", "--json", "--jobs", "1").json
        assert [study["runs"] for study in told["studies"]] == [runs]
        assert "another version of its recipe" in h2h("reproduce", "--stored").out
    (clone / "mine.py").write_text(RECIPE)
    # a damaged file is no reason to write down that nothing was tested
    file = clone / "measured" / "mine.json"
    whole = file.read_text()
    file.write_text(whole[:-100])
    torn = h2h("reproduce", "--claims")
    assert (torn.code, torn.err.count("\n")) == (2, 1)
    assert "nothing is written: mine: " in torn.err
    assert Path("README.md").read_text() == readme
    assert h2h("reproduce", "--stored").code == 1
    file.write_text(whole)
    # a run that came out otherwise is counted
    said = json.loads(whole)
    next(iter(said["runs"].values()))["result"]["values"]["validation/loss"] *= 1.5
    file.write_text(json.dumps(said))
    otherwise = h2h("reproduce", "000").err
    assert "11 of 12 runs are those stored with the recipes, to the last bit\n" in otherwise
    file.write_text(json.dumps(said | {"environment": said["environment"] | {"processor": "an abacus"}}))
    assert "to the last bit; others were stored on an abacus, which rounds" in h2h("reproduce", "000").err


def test_the_small_version(clone):
    done = h2h("reproduce", "all", "--quick", "--json", "--jobs", "1")
    assert done.code == 0, done.err
    found = done.json
    assert {row["why"] for row in found["figures"]} == {"a small version"}
    assert found["claims"][0]["verdict"] == "unresolved"  # three pairs decide nothing
    assert not (clone / "measured").exists()
    shown = h2h("reproduce", "all", "--quick").out
    assert "3 pairs of short runs decide nothing" in shown
    assert "Of 1 claims" not in shown


@pytest.mark.usefixtures("clone")
def test_what_is_wrong_is_one_line():
    assert "there is no report '005'" in h2h("reproduce", "005").err
    missing = h2h("reproduce", "--stored")
    assert "not yet: mine: " in missing.out
    whole = h2h("reproduce", "--claims")
    assert whole.code != 0
    assert "there is nothing to write down yet: mine: " in whole.err
    assert "--forecast-only is of what would be trained" in h2h("reproduce", "--stored", "--forecast-only").err
    figures = Path("recipes/published/figures.toml")
    for content, says in (("[doc000", "cannot be read"), ('[doc000]\nclaims=["x"]', "has no number doc000.rope.loss")):
        figures.write_text(content)
        wrong = h2h("reproduce", "--stored")
        assert says in wrong.out + wrong.err
        assert "Traceback" not in wrong.err
    figures.unlink()
    assert "figures.toml is not there" in h2h("reproduce", "--stored").err
    figures.write_text(FIGURES)
    for words in (["--quick", "--keep"], ["--quick", "--claims"], ["--stored", "--keep"], ["000", "--claims"]):
        refused = h2h("reproduce", *words)
        assert refused.code == 2
        assert "Traceback" not in refused.err
    torn = h2h("reproduce", "--gallery")
    assert torn.code != 0
    assert "has no results to draw: h2h reproduce" in torn.err
    assert h2h("reproduce", folder=Path("docs")).err.startswith("h2h: there is no folder recipes/published here")
