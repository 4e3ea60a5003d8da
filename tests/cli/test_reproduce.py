"""`h2h reproduce` from the command line, on a report of one tiny experiment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead.spec import trust
from helpers.runs import SMALL
from helpers.terminal import h2h, imported_by

FIGURES = """
[doc000]
title = "A tiny report"
rope = { loss = 0.001 }
claims = ["Rotary positions beat learned ones"]
"""
RECIPE = f"""
from headtohead import Arm, Files, Study
from headtohead.claims import Better, Claim, Shown

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
    return {{"twice/loss": 2 * record.result.values["validation/loss"]}}


shown = [
    Shown("doc000.rope.loss", mine, "Rope", "validation/loss"),
    Shown("doc000.rope.loss", mine, "Rope", "twice/loss", unlike="twice"),
]
words = dict(because="They turn.", only="in four steps", revised="six pairs, not three.")
claims = [Claim("000.1", Better(mine, "Rope"), **words)]
"""


TOOLS = Path(__file__).parents[2] / "tools"


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of tools/, in the current folder."""
    return subprocess.run([sys.executable, TOOLS / name, *arguments], capture_output=True, text=True, check=False)


def write_recipe(folder: Path, text: str) -> None:
    """Write the recipe and approve it, as the user who wrote it does with `h2h trust`."""
    (folder / "mine.py").write_text(text)
    trust.approve(text.encode(), "mine.py", folder.resolve())


@pytest.fixture
def clone(text: Path) -> Path:
    assert text.name == "mine.txt"
    folder = Path("recipes/published")
    folder.mkdir(parents=True)
    (folder / "figures.toml").write_text(FIGURES)
    write_recipe(folder, RECIPE)
    Path("docs").mkdir()
    Path("README.md").write_text("Before.\n\n<!-- stored: claims -->\nold\n<!-- /stored -->\n\nAfter.\n")
    return folder


def test_reproduce_trains_keeps_and_judges(clone):
    forecast = h2h("reproduce", "000", "--forecast-only", "--json", "--jobs", "1").json
    assert [s["runs"] for s in forecast["studies"]] == [12]
    assert tool("keep_results.py").returncode == 2  # nothing is trained yet
    done = h2h("reproduce", "000", "--jobs", "1")
    assert done.code == 0, done.err
    assert "forecast: " in done.err
    assert "Rotary positions beat learned ones: holds, in four steps" in done.out
    assert "000: A tiny report\n\nFigures\n" in done.out
    assert "[1] not comparable: twice" in done.out
    kept = tool("keep_results.py")
    assert (kept.returncode, kept.stderr) == (0, "")
    assert (clone / "measured" / "mine.json").is_file()
    # nothing is trained again, and the bits are the same
    again = h2h("reproduce", "000")
    assert "everything is trained already" in again.err
    assert "12 of 12 runs equal the stored ones bit for bit" in again.err
    assert again.out == done.out
    # from the stored results alone
    stored = h2h("reproduce", "--stored", "--json", environment={**os.environ, "HEADTOHEAD_HOME": "elsewhere"}).json
    kept, modules = imported_by("reproduce", "--stored", "--json")
    assert (kept.code, kept.json) == (0, stored)
    assert "torch" not in modules
    (claim,) = stored["claims"]
    assert claim["id"] == "000.1"
    assert len(claim["findings"][0]["runs"]) == 12
    first, second = stored["figures"]
    assert second["mean"] == pytest.approx(2 * first["mean"])
    assert first["mark"] == "worse"
    page = tool("claims_page.py").stdout
    assert "It **holds**, in four steps. They turn." in page
    assert "*Changed after earlier results had been seen*: Six pairs, not three." in page
    assert all(run in page for run in claim["findings"][0]["runs"])
    assert tool("doc_blocks.py", ".").stdout == "wrote README.md\n"
    readme = Path("README.md").read_text()
    assert readme.startswith("Before.\n\n<!-- stored: claims -->\nOf 1 claim 1 holds")
    assert readme.endswith("<!-- /stored -->\n\nAfter.\n")
    # the runs of a changed recipe are missing
    for old, new, runs in (("seeds=6", "seeds=8", 4), ("train.steps=4", "train.steps=5", 12)):
        write_recipe(clone, RECIPE.replace(old, new))
        told = h2h("reproduce", "000", "--forecast-only", "--json", "--jobs", "1").json
        assert [study["runs"] for study in told["studies"]] == [runs]
        assert "another version of its recipe" in " ".join(h2h("reproduce", "--stored").out.split())
    (clone / "mine.py").write_text(RECIPE)
    # no page is written from a damaged file
    file = clone / "measured" / "mine.json"
    whole = file.read_text()
    file.write_text(whole[:-100])
    for name in ("claims_page.py", "doc_blocks.py"):
        refused = tool(name)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert refused.stderr.startswith("mine: ")
    assert Path("README.md").read_text() == readme
    assert h2h("reproduce", "--stored").code == 1
    file.write_text(whole)
    # a run with another result is counted
    said = json.loads(whole)
    next(iter(said["runs"].values()))["result"]["values"]["validation/loss"] *= 1.5
    file.write_text(json.dumps(said))
    otherwise = h2h("reproduce", "000").err
    assert "11 of 12 runs equal the stored ones bit for bit\n" in otherwise
    file.write_text(json.dumps(said | {"environment": said["environment"] | {"processor": "an abacus"}}))
    assert "bit for bit; the others were stored on an abacus, which rounds" in h2h("reproduce", "000").err


def test_quick_reproduction_decides_nothing(clone):
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
def test_wrong_input_of_reproduce_is_one_line():
    assert "there is no report '005'" in h2h("reproduce", "005").err
    missing = h2h("reproduce", "--stored")
    assert "not yet: mine: " in missing.out
    empty = tool("claims_page.py")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "no results are stored yet: mine: " in empty.stderr
    figures = Path("recipes/published/figures.toml")
    for content, says in (("[doc000", "cannot be read"), ('[doc000]\nclaims=["x"]', "has no number doc000.rope.loss")):
        figures.write_text(content)
        wrong = h2h("reproduce", "--stored")
        assert says in wrong.out + wrong.err
        assert "Traceback" not in wrong.err
    figures.unlink()
    assert "figures.toml is missing" in h2h("reproduce", "--stored").err
    figures.write_text(FIGURES)
    for option in ("--quick", "--forecast-only"):
        refused = h2h("reproduce", "--stored", option)
        assert refused.code == 2
        assert "--stored trains nothing" in refused.err
