"""Searches as a stranger types them."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from headtohead.cli import main
from runs.small import SMALL_OPTIONS, Done

pytestmark = pytest.mark.usefixtures("text")  # mine.txt

LR = "train.optimizer.lr"
SEARCH = ["search", "lm", "--data", "mine.txt", *SMALL_OPTIONS, "--set", "train.steps=4", "--jobs", "1"]
GRID = ["--over", f"{LR}=1e-4,1e-2", "--over", "train.batch=2,3"]


@pytest.fixture
def h2h(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """A command in this process, which is quick."""

    def typed(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        monkeypatch.setattr(sys, "argv", ["h2h", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capfd.readouterr()
        return Done(int(exit.value.code or 0), out, err)

    return typed


def test_a_grid_is_searched_shown_and_shown_again(h2h: Any, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    done = h2h(*SEARCH, *GRID)
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
    assert "its test figures, read once and for it alone: test perplexity" in done.out
    assert "the best of 4 looks better on the validation set than it is" in done.out
    assert "the smallest or largest that was tried" in done.out
    picture = Path(done.out.rpartition("picture: ")[2].strip())
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.with_suffix(".svg").read_text().startswith("<?xml")
    again = h2h(*SEARCH, *GRID)
    assert again.out == done.out
    assert "was done before" in again.err
    monkeypatch.setenv("COLUMNS", "40")
    narrow = " ".join(h2h(*SEARCH, *GRID).out.split())
    assert f"rank 1, lr {lr}, batch {batch}, validation/loss {rows[0][3]}, seconds" in narrow  # nothing is cut
    runs = len(list(home.glob("runs/*")))
    said = h2h(*SEARCH, *GRID, "--json").json
    assert (len(said["trials"]), said["picture"]) == (4, str(picture))
    assert said["test"]["test/loss"] > 0
    assert len(list(home.glob("runs/*"))) == runs == 4
    (command,) = [line.partition(": ")[2] for line in lines if line.startswith("one seed is one draw")]
    assert command == said["train"]
    assert command.startswith("h2h train lm --data mine.txt --set model.width=16")
    assert command.endswith(f"--set train.batch={batch} --set {LR}={lr} --seed 1 --seeds 5")
    trained = h2h(*shlex.split(command.replace("--seeds 5", "--seeds 1"))[1:], "--json")
    assert trained.json[0]["seed"] == 1
    assert "test/loss" in trained.json[0]["values"]


def test_an_adaptive_search_of_an_arm_of_a_file(h2h: Any) -> None:
    code = "from headtohead import *\nmine = Arm.of('lm', Files(path='mine.txt')).settings(['tokenizer=Byte'])\n"
    Path("arms.py").write_text(code)
    options = [*SMALL_OPTIONS, "--set", "train.steps=2", "--jobs", 1, "--json"]
    over = ["--over", f"{LR}=1e-4..1e-1", "--over", "model.position=Rope,Alibi", "--trials", 3, "--together", 2]
    done = h2h("search", "--arm", "arms.py:mine", *options, *over)
    assert done.code == 0, done.err
    assert (done.json["sampler"], done.json["together"], len(done.json["trials"])) == ("tpe", 2, 3)
    assert done.json["over"][LR] == {"low": 1e-4, "high": 0.1, "log": True}
    assert done.json["train"].startswith("h2h train --arm arms.py:mine --set model.width=16")


def test_the_command_for_more_seeds_trains_what_was_chosen(h2h: Any, home: Path) -> None:
    over = ["--over", f"{LR}=0.001,0.002", "--over", "train.optimizer=SGD(momentum=0.5),Adagrad"]
    said = h2h(*SEARCH, *over, "--json").json
    (trained,) = h2h(*shlex.split(said["train"].replace("--seeds 5", "--seeds 1"))[1:], "--json").json
    chosen = next(t for t in said["trials"] if t["number"] == said["chosen"])
    specs = [
        json.loads((home / "runs" / run / "run.json").read_text())["arm"] for run in (chosen["run"], trained["run"])
    ]
    for spec in specs:
        spec["evaluate"].pop("tests")
    assert specs[0] == specs[1]


def test_a_forecast_alone(h2h: Any, home: Path) -> None:
    done = h2h(*SEARCH, *GRID, "--forecast-only")
    assert done.code == 0, done.err
    assert done.out.startswith("4 trials to train, 1 at a time: about ")
    said = h2h(*SEARCH, *GRID, "--forecast-only", "--json").json
    assert said["trials"] == 4
    assert said["minutes"] > 0
    assert not home.exists()
    h2h(*SEARCH, "--over", f"{LR}=1e-4,1e-2", "--over", "train.batch=4")
    assert h2h(*SEARCH, "--over", f"{LR}=1e-2,1e-4", "--forecast-only").out.startswith("every trial is in the store")
    assert len(list(home.glob("searches/*"))) == 1  # and the test sets were not read for it


def test_trials_that_fail_are_said(h2h: Any) -> None:
    done = h2h(*SEARCH, "--over", "model.block=16,100000")
    assert done.code == 0, done.err
    assert "block=100000 failed: " in done.err
    assert "failed at block=100000: " in done.out
    assert done.out.count("failed") == 2  # in the table, and why


def test_nothing_is_taken_for_markup(h2h: Any) -> None:
    rows = [f"{word} {n},{label}" for n in range(60) for word, label in (("good", "[b]"), ("bad", "[/i]"))]
    Path("[red] x.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    command = ["search", "classifier", "--data", "[red] x.csv", *SMALL_OPTIONS, "--set", "train.steps=3"]
    done = h2h(*command, "--over", f"{LR}=1e-4,1e-2", "--jobs", 1)
    assert done.code == 0, done.err
    assert "--data '[red] x.csv'" in done.out


WRONG = {
    "nothing to train": (["search", *GRID], "say what to train: h2h search lm"),
    "two things to train": (["search", "lm", "--arm", "x.py:y", *GRID], "say what to train"),
    "data with an arm": (["search", "--arm", "x.py:y", "--data", "mine.txt", *GRID], "an arm has its own data"),
    "nothing to search over": (SEARCH, "say what to search over"),
    "no equals sign": ([*SEARCH, "--over", "train.batch"], "--over takes FIELD=VALUE,VALUE or FIELD=LOW..HIGH"),
    "an empty list": ([*SEARCH, "--over", "train.batch=,"], "--over takes FIELD=VALUE,VALUE or FIELD=LOW..HIGH"),
    "the same setting twice": ([*SEARCH, *GRID, "--over", "train.batch=4"], "--over train.batch is given twice"),
    "a setting nobody knows": ([*SEARCH, "--over", "train.bach=2,3"], "did you mean batch"),
    "a value that is refused": ([*SEARCH, "--over", "train.batch=2,-3"], "cannot try train.batch=-3"),
    "ends the wrong way round": ([*SEARCH, "--over", f"{LR}=1..0.1", "--trials", 3], "the lower end comes first"),
    "no trials": ([*SEARCH, *GRID, "--trials", 0], "--trials is a number from 1 to 10,000"),
    "a range without trials": ([*SEARCH, "--over", f"{LR}=0.1..1"], "such as --trials 20"),
    "no validation set": ([*SEARCH, *GRID, "--set", "data.validation=0"], "the data has no validation set"),
    "undone": ([*SEARCH, "--over", "train.steps=2,3", "--over", "train.epochs=1,2"], "train.steps is undone"),
    "a file that is not there": (["search", "lm", "--data", "nothing.txt", *GRID], "nothing.txt"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_done_is_one_line_before_anything_is_trained(what: str, h2h: Any, home: Path) -> None:
    arguments, says = WRONG[what]
    done = h2h(*arguments)
    assert done.code == 2, done
    assert done.err.startswith("h2h: ")
    assert done.err.count("\n") == 1, done.err
    assert says in done.err
    assert done.out == ""
    assert not (home / "runs").exists()


def test_where_all_fails_it_is_said_at_the_end(h2h: Any) -> None:
    done = h2h(*SEARCH, "--over", "train.optimizer=SGD(lr=1e30),SGD(lr=1e32)")
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith(
        "h2h: none of the 2 trials has a figure to choose by; the first: diverged"
    )
    assert "Traceback" not in done.err


def test_without_optuna_it_is_said_where_to_get_it(h2h: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    done = h2h(*SEARCH, *GRID)
    assert (done.code, done.out) == (3, "")
    assert done.err == "h2h: a search needs Optuna: pip install 'headtohead[tune]'\n"


def test_a_search_that_is_done_is_shown_without_optuna(h2h: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    done = h2h(*SEARCH, *GRID, "--json")
    monkeypatch.setitem(sys.modules, "optuna", None)
    again = h2h(*SEARCH, *GRID, "--json")
    assert json.loads(again.out) == json.loads(done.out)
