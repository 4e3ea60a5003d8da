"""Studies from the command line, as a stranger would type them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runs.small import SMALL_OPTIONS, h2h

pytestmark = pytest.mark.usefixtures("text")  # mine.txt

TINY = [*SMALL_OPTIONS, "--set", "train.steps=6"]
RECIPE = """
from headtohead import Arm, Files, Study
mine = Study(
    question="Is Rope any good?",
    control=Arm.of("lm", Files(path="mine.txt")).settings(
        ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4", "train.steps=6"]
    ),
    vary={"model.position": ["Learned", "Rope"]},
    command="h2h run mine.py",
    takes="a second",
    expected="nothing much",
)
"""


def varied(*more: object):
    return h2h("run", "lm", "--data", "mine.txt", "--vary", "model.position=Learned,Rope", *TINY, "--jobs", 1, *more)


def test_a_study_without_a_file():
    done = varied("--seeds", 6)
    assert done.code == 0, done.err
    assert "Learned (control)" in done.out
    assert "noise floor" in done.out
    assert "smallest effect that 6 pairs see" in done.out
    assert "scope: 11,776 parameters, 6 steps" in done.out
    assert "Rope, seed 5: test/loss" in done.err
    report = Path(done.out.rpartition("report: ")[2].strip())
    page = report.read_text()
    assert page.startswith("<!doctype html>")
    assert page.count('<svg role="img"') == 3  # forest, curves, cost
    assert "<script src" not in page
    shown = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "http://" not in shown.replace("http://www.w3.org", "")
    assert "https://" not in shown


def test_models_are_audited_before_they_are_trained():
    reads_ahead = "model.fusion=Concat,Reweight(over=sequence)"
    done = h2h("run", "lm", "--data", "mine.txt", "--vary", reads_ahead, *TINY, "--jobs", 1, "--seeds", 2)
    assert done.code == 0, done.err
    warned, _, trained = done.err.partition("6 runs")
    assert "warning: the audit of Reweight(over='sequence') finds future-gradient broken" in warned
    assert "Concat" not in warned
    assert "seed 0: test/loss" in trained
    page = Path(done.out.rpartition("report: ")[2].strip()).read_text()
    assert "Broken by Reweight(over=&#39;sequence&#39;)" in page
    assert "0 broken" in page
    assert "loads the models and does" in page  # attention and samples


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_run_of_a_study_is_logged(home: Path):
    pytest.importorskip("tensorboard")
    done = varied("--seeds", 2, "--log-to", "tensorboard")
    assert done.code == 0, done.err
    logged = {folder.name for folder in (home / "tracking" / "tensorboard").iterdir()}
    assert logged == {folder.name for folder in (home / "runs").iterdir()}
    assert "no tracker 'nonsense'" in varied("--seeds", 2, "--log-to", "nonsense").err


def test_a_study_with_a_run_that_failed_ends_with_one():
    Path("broken.py").write_text(
        "from headtohead.parts.positions import NoPosition\n\n\nclass Broken(NoPosition):\n"
        "    def build(self, dims):\n        raise RuntimeError('the floor gave way')\n"
    )
    done = h2h(
        "run",
        "lm",
        "--data",
        "mine.txt",
        "--vary",
        "model.position=Rope,broken.py:Broken",
        *TINY,
        "--jobs",
        1,
        "--seeds",
        2,
    )
    assert done.code == 1
    assert "the floor gave way" in done.out
    assert "report: " in done.out


def test_a_recipe_runs_reports_and_says_json():
    Path("mine.py").write_text(RECIPE)
    done = h2h("run", "mine.py", "--seeds", 2, "--jobs", 1, "--json")
    assert done.code == 0, done.err
    table = done.json["tables"][0]
    assert (table["question"], table["control"], table["seeds"]) == ("Is Rope any good?", "Learned", 2)
    assert table["arms"][0]["arm"] == "Rope"
    assert table["arms"][0]["descriptive"]
    again = h2h("report", "mine.py", "--json")
    assert again.json["tables"] == done.json["tables"]
    assert h2h("report", "mine").code == 0
    assert h2h("report").code == 0
    assert "mine" in h2h("list", "studies").out
    listed = h2h("list", "studies", "--json").json
    assert listed[0]["question"] == "Is Rope any good?"


def test_recipes_are_listed_with_their_command():
    Path("recipes").mkdir()
    (Path("recipes") / "mine.py").write_text(RECIPE)
    rows = {row["recipe"]: row for row in h2h("list", "recipes", "--json").json}
    assert rows["mine"]["command"] == "h2h run mine.py"
    assert rows["demo"]["command"] == "h2h demo"
    assert h2h("run", "mine", "--seeds", 2, "--jobs", 1).code == 0


@pytest.mark.usefixtures("home", "text")
def test_a_plan_needs_something_to_compare():
    recipe = (
        'from headtohead import Arm, Files, Study\nalone = Study("?", Arm.of("lm", Files(path="mine.txt")), vary=())\n'
    )
    Path("alone.py").write_text(recipe)
    done = h2h("plan", "alone.py", "--effect", "1%")
    assert done.code == 2
    assert "nothing is compared here" in done.err


def test_a_plan_says_pairs_and_minutes_and_is_held_against_what_happened(home: Path):
    Path("mine.py").write_text(RECIPE)
    done = h2h("plan", "mine.py", "--effect", "20%", "--jobs", 1)
    assert done.code == 0, done.err
    assert "to see an effect of" in done.out
    assert "pairs" in done.out
    said = h2h("plan", "mine.py", "--effect", "20%", "--jobs", 1, "--json").json
    assert said["pairs"] >= 6
    assert said["minutes"] > 0
    assert said["sd"] > 0
    ran = h2h("run", "mine.py", "--effect", "20%", "--jobs", 1)
    assert ran.code == 0, ran.err
    assert "forecast" in ran.out
    assert "took" in ran.out
    frame = json.loads((home / "studies" / "mine" / "study.json").read_text())
    assert len(frame["seeds"]) == said["pairs"]


BAD = {
    "nothing varied": (["run", "lm"], "say what to vary"),
    "no values": (["run", "lm", "--vary", "model.position"], "FIELD=VALUE,VALUE"),
    "a field nobody knows": (["run", "lm", "--vary", "model.positoin=Rope"], "did you mean position"),
    "one seed": (["run", "lm", "--vary", "model.position=Rope", "--seeds", "1"], "one pair decides nothing"),
    "a metric nobody has": (["run", "lm", "--vary", "model.position=Rope", "--metric", "test/f1"], "no 'f1'"),
    "an arm twice": (["run", "lm", "--vary", "model.position=Rope,Rope"], "Rope twice"),
    "a recipe that is not there": (["run", "nothing.py"], "no file nothing.py"),
    "a recipe nobody knows": (["run", "nothing"], "no recipe 'nothing'"),
    "vary with a recipe": (["run", "demo", "--vary", "model.position=Rope"], "go with lm or classifier"),
    "an effect of words": (["plan", "demo", "--effect", "much"], "a number or a percentage"),
    "a study that is not there": (["report", "nothing"], "there are no studies"),
    "a margin below zero": (["run", "demo", "--margin", "-1"], "above zero"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_done_is_one_line(what: str):
    arguments, said = BAD[what]
    done = h2h(*arguments)
    assert done.code == 2
    assert said in done.err.replace("\n", " ")
    assert "Traceback" not in done.err
    assert done.out == ""


def test_files_without_one_study_say_so():
    Path("none.py").write_text("x = 1\n")
    assert "holds no Study" in h2h("run", "none.py").err
    Path("two.py").write_text(RECIPE + RECIPE.replace("mine =", "yours ="))
    assert "holds 2 studies: say which: two.py:mine" in h2h("run", "two.py").err
    assert h2h("run", "two.py:yours", "--seeds", 2, "--jobs", 1).code == 0


def test_a_store_that_cannot_be_written_is_one_line(home: Path):
    home.write_text("a file")
    done = varied("--seeds", 2)
    assert done.code == 3
    assert "Traceback" not in done.err


def test_a_diverged_arm_is_named_under_the_table():
    done = h2h(
        *(
            "run",
            "lm",
            "--data",
            "mine.txt",
            "--vary",
            "train.optimizer.lr=0.001,1e30",
            *TINY,
            "--jobs",
            1,
            "--seeds",
            2,
        )
    )
    assert done.code == 0
    assert "pairs left out, seeds 0, 1: lr=1e+30: diverged at step" in done.out
