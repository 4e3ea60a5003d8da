"""Searches as a stranger types them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from helpers.runs import SMALL_OPTIONS
from helpers.terminal import Type

pytestmark = pytest.mark.usefixtures("text")  # mine.txt

LR = "train.optimizer.lr"
SEARCH = ["search", "lm", "--data", "mine.txt", *SMALL_OPTIONS, "--set", "train.steps=4", "--jobs", "1"]
GRID = ["--over", f"{LR}=1e-4,1e-2", "--over", "train.batch=2,3"]


def test_a_grid_search_prints_the_same_table_twice(type_in: Type, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    done = type_in(*SEARCH, *GRID)
    assert done.code == 0, done.err
    assert "4 trials to train, 1 at a time: about" in done.err
    assert "trial 4 of 4: lr=" in done.err
    assert "validation/loss" in done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["rank", "lr", "batch", "validation/loss", "seconds", "run"]
    rows = [line.split() for line in lines[2:6]]
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]
    figures = [float(row[3]) for row in rows]
    assert figures == sorted(figures)
    lr, batch = rows[0][1:3]
    assert f"chosen: lr={lr}, batch={batch}, validation/loss {rows[0][3]} (run {rows[0][5]})" in done.out
    assert "its test values, evaluated once and only for it: test perplexity" in done.out
    assert "the best of 4 looks better on the validation set than it is" in done.out
    assert "the smallest or largest that was tried" in done.out
    picture = Path(done.out.rpartition("picture: ")[2].strip())
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.with_suffix(".svg").read_text().startswith("<?xml")
    again = type_in(*SEARCH, *GRID)
    assert again.out == done.out
    assert "this search is in the store" in again.err
    monkeypatch.setenv("COLUMNS", "40")
    narrow = " ".join(type_in(*SEARCH, *GRID).out.split())
    assert f"rank 1, lr {lr}, batch {batch}, validation/loss {rows[0][3]}, seconds" in narrow  # nothing is cut
    runs = len(list(home.glob("runs/*")))
    said = type_in(*SEARCH, *GRID, "--json").json
    assert (len(said["trials"]), said["picture"]) == (4, str(picture))
    assert said["test"]["test/loss"] > 0
    assert len(list(home.glob("runs/*"))) == runs == 4
    (command,) = [line.partition(": ")[2] for line in lines if line.startswith("one seed is one random draw")]
    assert command == said["train"]
    assert command.startswith("h2h train lm --data mine.txt --set model.width=16")
    assert command.endswith(f"--set train.batch={batch} --set {LR}={lr} --seed 1 --seeds 5")
    trained = type_in(*shlex.split(command.replace("--seeds 5", "--seeds 1"))[1:], "--json")
    assert trained.json[0]["seed"] == 1
    assert "test/loss" in trained.json[0]["values"]


def test_an_adaptive_search_of_an_arm_of_a_file(type_in: Type) -> None:
    code = "from headtohead import *\nmine = Arm.of('lm', Files(path='mine.txt')).settings(['tokenizer=Byte'])\n"
    Path("arms.py").write_text(code)
    options = [*SMALL_OPTIONS, "--set", "train.steps=2", "--jobs", 1, "--json"]
    over = ["--over", f"{LR}=1e-4..1e-1", "--over", "model.position=Rope,Alibi", "--trials", 3, "--together", 2]
    done = type_in("search", "--arm", "arms.py:mine", *options, *over)
    assert done.code == 0, done.err
    assert (done.json["sampler"], done.json["together"], len(done.json["trials"])) == ("tpe", 2, 3)
    assert done.json["over"][LR] == {"low": 1e-4, "high": 0.1, "log": True}
    assert done.json["train"].startswith("h2h train --arm arms.py:mine --set model.width=16")


def test_the_printed_command_trains_the_chosen_settings(type_in: Type, home: Path) -> None:
    over = ["--over", f"{LR}=0.001,0.002", "--over", "train.optimizer=SGD(momentum=0.5),Adagrad"]
    said = type_in(*SEARCH, *over, "--json").json
    (trained,) = type_in(*shlex.split(said["train"].replace("--seeds 5", "--seeds 1"))[1:], "--json").json
    chosen = next(t for t in said["trials"] if t["number"] == said["chosen"])
    specs = [
        json.loads((home / "runs" / run / "run.json").read_text())["arm"] for run in (chosen["run"], trained["run"])
    ]
    for spec in specs:
        spec["evaluate"].pop("tests")
    assert specs[0] == specs[1]


def test_forecast_only_trains_nothing(type_in: Type, home: Path) -> None:
    done = type_in(*SEARCH, *GRID, "--forecast-only")
    assert done.code == 0, done.err
    assert done.out.startswith("4 trials to train, 1 at a time: about ")
    said = type_in(*SEARCH, *GRID, "--forecast-only", "--json").json
    assert said["runs"] == 4
    assert said["minutes"] > 0
    assert not home.exists()
    type_in(*SEARCH, "--over", f"{LR}=1e-4,1e-2", "--over", "train.batch=4")
    assert type_in(*SEARCH, "--over", f"{LR}=1e-2,1e-4", "--forecast-only").out.startswith(
        "every trial is in the store"
    )
    assert len(list(home.glob("searches/*"))) == 1  # and the test sets were not read for it


def test_trials_that_fail_are_shown(type_in: Type) -> None:
    done = type_in(*SEARCH, "--over", "model.block=16,100000")
    assert done.code == 0, done.err
    assert "block=100000 failed: " in done.err
    assert "failed at block=100000: " in done.out
    assert done.out.count("failed") == 2  # in the table, and why


def test_brackets_in_names_are_printed(type_in: Type) -> None:
    rows = [f"{word} {n},{label}" for n in range(60) for word, label in (("good", "[b]"), ("bad", "[/i]"))]
    Path("[red] x.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    command = ["search", "classifier", "--data", "[red] x.csv", *SMALL_OPTIONS, "--set", "train.steps=3"]
    done = type_in(*command, "--over", f"{LR}=1e-4,1e-2", "--jobs", 1)
    assert done.code == 0, done.err
    assert "--data '[red] x.csv'" in done.out


WRONG = {
    "nothing to train": (["search", *GRID], "say what to train: h2h search lm"),
    "two things to train": (["search", "lm", "--arm", "x.py:y", *GRID], "say what to train"),
    "data with an arm": (["search", "--arm", "x.py:y", "--data", "mine.txt", *GRID], "an arm has its own data"),
    "nothing to search over": (SEARCH, "give settings to search over"),
    "no equals sign": ([*SEARCH, "--over", "train.batch"], "--over takes FIELD=VALUE,VALUE or FIELD=LOW..HIGH"),
    "an empty list": ([*SEARCH, "--over", "train.batch=,"], "--over takes FIELD=VALUE,VALUE or FIELD=LOW..HIGH"),
    "the same setting twice": ([*SEARCH, *GRID, "--over", "train.batch=4"], "--over train.batch is given twice"),
    "a setting nobody knows": ([*SEARCH, "--over", "train.bach=2,3"], "did you mean batch"),
    "a value that is refused": ([*SEARCH, "--over", "train.batch=2,-3"], "cannot try train.batch=-3"),
    "ends the wrong way round": ([*SEARCH, "--over", f"{LR}=1..0.1", "--trials", 3], "give the smaller number first"),
    "no trials": ([*SEARCH, *GRID, "--trials", 0], "--trials is a number from 1 to 10,000"),
    "a range without trials": ([*SEARCH, "--over", f"{LR}=0.1..1"], "such as --trials 20"),
    "no validation set": ([*SEARCH, *GRID, "--set", "data.validation=0"], "the data has no validation set"),
    "undone": (
        [*SEARCH, "--over", "train.steps=2,3", "--over", "train.epochs=1,2"],
        "another searched setting overrides train.steps",
    ),
    "a file that is not there": (["search", "lm", "--data", "nothing.txt", *GRID], "nothing.txt"),
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_search_options_are_one_line_before_training(what: str, type_in: Type, home: Path) -> None:
    arguments, says = WRONG[what]
    done = type_in(*arguments)
    assert done.code == 2, done
    assert done.err.startswith("h2h: ")
    assert done.err.count("\n") == 1, done.err
    assert says in done.err
    assert done.out == ""
    assert not (home / "runs").exists()


def test_a_search_whose_trials_all_fail_says_so(type_in: Type) -> None:
    done = type_in(*SEARCH, "--over", "train.optimizer=SGD(lr=1e30),SGD(lr=1e32)")
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith(
        "h2h: none of the 2 trials has a value to choose by; the first: diverged"
    )
    assert "Traceback" not in done.err


def test_without_optuna_the_install_command_is_shown(type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    done = type_in(*SEARCH, *GRID)
    assert (done.code, done.out) == (3, "")
    assert done.err == "h2h: a search needs the extra tune: pip install 'headtohead[tune]'\n"


def test_a_finished_search_is_shown_without_optuna(type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    done = type_in(*SEARCH, *GRID, "--json")
    monkeypatch.setitem(sys.modules, "optuna", None)
    again = type_in(*SEARCH, *GRID, "--json")
    assert json.loads(again.out) == json.loads(done.out)
