"""Studies from the command line, as a stranger would type them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.recipes import RECIPE
from helpers.runs import SMALL_OPTIONS
from helpers.terminal import h2h

pytestmark = pytest.mark.usefixtures("text")  # mine.txt
TINY = [*SMALL_OPTIONS, "--set", "train.steps=6"]


def varied(*more: object):
    return h2h("run", "lm", "--data", "mine.txt", "--vary", "model.position=Learned,Rope", *TINY, "--jobs", 1, *more)


def test_run_with_vary_prints_and_writes_a_report():
    done = varied("--seeds", 6)
    assert done.code == 0, done.err
    assert "Learned (control)" in done.out
    assert "the control against itself, new runs (other batch order, 6 pairs)" in done.out
    assert "smallest detectable difference (6 pairs, 80 % power, each arm)" in done.out
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


def test_run_audits_models_before_training():
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
    assert "Not computed. Run h2h report" in page  # attention and samples


POSITIONS = "model.position=Learned,Sinusoidal,Sinusoidal(amplitude=0.02)"


def warned_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("warning: ")]


def test_run_warnings_are_shown_once_for_each_arm():
    command = ["run", "lm", "--data", "mine.txt", "--vary", POSITIONS, *TINY, "--seeds", 3]
    done = h2h(*command, "--jobs", 2)
    assert done.code == 0, done.err
    *data, trap = warned_in(done.err)
    assert [line.partition(" of the ")[2].split()[0] for line in data] == ["validation", "test"]
    assert trap.startswith("warning: Sinusoidal: position vectors are 3")
    assert trap.endswith("try --set 'model.position=Sinusoidal(amplitude=0.02)'")
    page = Path(done.out.rpartition("report: ")[2].strip()).read_text()
    assert page.count("Sinusoidal: position vectors are 3") == 1
    again = h2h(*command, "--json")  # every run is in the store
    assert warned_in(again.err) == warned_in(done.err)
    assert [f"warning: {line}" for line in again.json["warnings"]] == warned_in(done.err)
    assert h2h("report", "--json").json["warnings"] == again.json["warnings"]


def test_tuning_shows_the_warnings_of_an_arm_once():
    Path("tuned.py").write_text(
        RECIPE.replace('"Rope"]', '"Sinusoidal"]').replace(
            "command=", 'tune={"train.optimizer.lr": [1e-3, 3e-3]}, tuning_seeds=2, again=True, seeds=2, command='
        )
    )
    done = h2h("run", "tuned.py", "--jobs", 1)
    assert done.code == 0, done.err
    assert "8 tuning runs" in done.err
    assert len([line for line in warned_in(done.err) if "position vectors" in line]) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_run_of_a_study_is_logged(home: Path):
    pytest.importorskip("tensorboard")
    done = varied("--seeds", 2, "--log-to", "tensorboard")
    assert done.code == 0, done.err
    logged = {folder.name for folder in (home / "tracking" / "tensorboard").iterdir()}
    assert logged == {folder.name for folder in (home / "runs").iterdir()}
    assert "no tracker 'nonsense'" in varied("--seeds", 2, "--log-to", "nonsense").err


def test_a_study_with_a_failed_run_exits_with_1():
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


def test_a_recipe_runs_and_reports_as_json():
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


BAD = {
    "nothing varied": (["run", "lm"], "say what to vary"),
    "no values": (["run", "lm", "--vary", "model.position"], "FIELD=VALUE,VALUE"),
    "a field nobody knows": (["run", "lm", "--vary", "model.positoin=Rope"], "did you mean position"),
    "one seed": (["run", "lm", "--vary", "model.position=Rope", "--seeds", "1"], "a study needs at least 2 seeds"),
    "a metric nobody has": (["run", "lm", "--vary", "model.position=Rope", "--metric", "test/f1"], "no 'f1'"),
    "an arm twice": (["run", "lm", "--vary", "model.position=Rope,Rope"], "Rope twice"),
    "a recipe that is not there": (["run", "nothing.py"], "no file nothing.py"),
    "a recipe nobody knows": (["run", "nothing"], "no recipe 'nothing'"),
    "vary with a recipe": (["run", "demo", "--vary", "model.position=Rope"], "are for lm or classifier"),
    "an effect of words": (["plan", "demo", "--effect", "much"], "a number or a percentage"),
    "a study that is not there": (["report", "nothing"], "there are no studies"),
    "a margin below zero": (["run", "demo", "--margin", "-1"], "above zero"),
    "until something else": (["run", "demo", "--until", "bored"], "--until takes the word resolved, not 'bored'"),
    "seeds and until": (["run", "demo", "--seeds", "6", "--until", "resolved"], "--seeds fixes the number of pairs"),
    "seeds and futility": (["run", "demo", "--seeds", "6", "--futility"], "--seeds fixes the number of pairs"),
    "three pairs": (["run", "demo", "--max-pairs", "3"], "give --max-pairs 6 or more"),
    "too many pairs": (["run", "demo", "--max-pairs", "99999999"], "max_pairs is at most 10,000"),
    "no budget": (["run", "demo", "--budget", "0"], "a time is above zero, not '0'"),
    "a budget of words": (["run", "demo", "--budget", "abc"], "a number with s, min or h, such as 30min"),
    "a budget of seeds": (["run", "demo", "--budget", "1h", "--seeds", "6"], "--budget is for sequential studies"),
    "an odd rule": (["run", "demo", "--rule", "z"], "the rule of a design is flips or t, not 'z'"),
    "nothing published": (["run", "demo", "--published", "nan"], "published is a difference, such as -0.097"),
    "an effect and seeds": (["run", "demo", "--effect", "1%", "--seeds", "6"], "leave out --seeds, --until and"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_done_is_one_line(what: str):
    arguments, said = BAD[what]
    done = h2h(*arguments)
    assert done.code == 2
    assert said in done.err.replace("\n", " ")
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_file_with_no_study_or_two_is_refused():
    Path("none.py").write_text("x = 1\n")
    assert "has no Study" in h2h("run", "none.py").err
    Path("two.py").write_text(RECIPE + RECIPE.replace("mine =", "yours ="))
    assert "has 2 studies: choose one: two.py:mine" in h2h("run", "two.py").err
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
