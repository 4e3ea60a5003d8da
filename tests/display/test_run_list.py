"""`h2h list` on stores without training: one line a run, filters, and nothing wider than the screen."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from headtohead import Arm, Sotu
from helpers.stores import stored
from helpers.terminal import Done, h2h


def listed(*arguments: object, width: int = 80) -> Done:
    return h2h("list", *arguments, environment={**os.environ, "COLUMNS": str(width)})


def run_of(home: Path, name: str, arm: Any, seed: int = 0, **more: Any) -> Path:
    """A run that was begun, and no more."""
    folder = home / "runs" / name
    folder.mkdir(parents=True)
    spec = {"kind": "RunSpec", "arm": arm, "seed": seed, "device": "cpu", "threads": 1, "protocol": 1}
    (folder / "run.json").write_text(json.dumps(spec | more))
    return folder


def ids(done: Done) -> list[str]:
    assert done.code == 0, done.err
    return [row["run"] for row in done.json]


@pytest.fixture
def store(home: Path) -> Path:
    """A study of three arms and six seeds, a classifier and a language model that were stopped."""
    stored(home)
    lm = Arm.of("lm", Sotu(since=1990)).settings(["model.pattern=Causal & Local(4)", "model.position=Rope(theta=500)"])
    run_of(home, "c" * 16, lm.to_json(), seed=7)
    run_of(home, "d" * 16, Arm.of("classifier", Sotu()).settings(["train.epochs=3", "data.limit=5"]).to_json())
    return home


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_run_is_one_line_within_the_terminal(store: Path, width: int) -> None:
    lines = listed("runs", width=width).out.splitlines()
    assert len(lines) == 1 + len(list((store / "runs").iterdir()))
    assert all(len(line) <= max(width, 60) for line in lines)
    assert lines[0].split()[0] == "run"
    assert lines[-1].startswith("dddddddd  st")


@pytest.mark.usefixtures("store")
def test_a_wide_terminal_cuts_nothing() -> None:
    out = listed("runs", width=200).out
    assert "…" not in out
    line = next(line for line in out.splitlines() if line.startswith("cccccccc"))
    assert re.split(" {2,}", line) == [
        *("cccccccc", "stopped", "lm", "sotu", "7"),
        "position=Rope(theta=500), pattern=Causal & Local(window=4)",
    ]
    assert "limit=5, epochs=3" in out
    assert "loss 2.7" in out


@pytest.mark.usefixtures("store")
def test_list_json_holds_every_field() -> None:
    rows = {row["run"]: row for row in listed("runs", "--json").json}
    assert rows["c" * 16]["what"] == (
        "lm on sotu, seed 7, model.position=Rope(theta=500.0), model.pattern=(Causal() & Local(window=4))"
    )
    assert rows["c" * 16]["differs"]["model.position"] == "Rope(theta=500.0)"
    assert (rows["d" * 16]["task"], rows["d" * 16]["corpus"], rows["d" * 16]["steps"]) == ("classifier", "sotu", None)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("where", "found"),
    [
        (["state=stopped"], "cd"),
        (["task=classifier"], "d"),
        (["seed=7"], "c"),
        (["corpus=sotu", "state=stopped"], "cd"),
        (["data.corpus=Sotu(since=1990)"], "c"),
        (["model.position=Rope", "state=stopped"], "c"),
        (["model.position=Rope(theta=500)"], "c"),
        (["model.position=Rope(500)"], "c"),
        (["model.position.theta=500"], "c"),
        (["model.pattern=Causal & Local(4)"], "c"),
        (["train.epochs=3"], "d"),
        (["train.steps=none", "data.limit=5"], "d"),
        (["run=" + "c" * 16], "c"),
        (["device=cpu", "threads=1", "state=stopped"], "cd"),
        (["model.position=Rope(theta=501)"], ""),
        (["state=diverged"], ""),
    ],
)
def test_where_keeps_the_runs_that_match(where: list[str], found: str) -> None:
    options = [word for condition in where for word in ("--where", condition)]
    assert ids(listed("runs", "--json", *options)) == [letter * 16 for letter in found]


@pytest.mark.usefixtures("store")
def test_study_and_last_choose_runs() -> None:
    everything = ids(listed("runs", "--json"))
    of_study = ids(listed("runs", "--json", "--study", "stored"))
    assert set(everything) - set(of_study) == {"c" * 16, "d" * 16}
    assert len(of_study) == 24  # three arms and the control again, six seeds
    rope = ids(listed("runs", "--json", "--study", "stored", "--where", "model.position=Rope"))
    assert len(rope) == 12
    assert ids(listed("runs", "--json", "--last", 3)) == everything[-3:]
    assert (
        ids(listed("runs", "--json", "--last", 2, "--where", "seed=3"))
        == ids(listed("runs", "--json", "--where", "seed=3"))[-2:]
    )
    none = listed("runs", "--where", "seed=99")
    assert (none.code, none.out) == (0, "none of the 26 runs in the store matches; h2h list runs shows them all\n")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--where", "model.position=Roep"], "no position is called 'Roep': did you mean Rope?"),
        (["--where", "model.pattern=Casual & Local"], "no pattern is called 'Casual': did you mean Causal?"),
        (["--where", "modl.position=Rope"], "runs have no field 'modl.position': did you mean model.position?"),
        (["--where", "model.position.tehta=3"], "runs have no field 'model.position.tehta'"),
        (["--where", "state=compleet"], "no state is called 'compleet': did you mean complete?"),
        (["--where", "task=ml"], "no task is called 'ml': did you mean lm?"),
        (["--where", "corpus=sotuu"], "did you mean sotu?"),
        (["--where", "seed=three"], "seed is a whole number, such as seed=3, not 'three'"),
        (["--where", "train.steps=many"], "train.steps is a number"),
        (["--where", "evaluate.keep=bset"], "did you mean best?"),
        (["--where", "seed"], "--where takes FIELD=VALUE"),
        (["--where", "=3"], "--where takes FIELD=VALUE"),
        (["--study", "storde"], "no study 'storde'"),
        (["--last", "0"], "greater than or equal to 1"),
    ],
)
def test_a_bad_filter_is_one_line_with_the_nearest_name(options: list[str], says: str) -> None:
    done = listed("runs", *options)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert says in done.err


def test_listing_runs_executes_no_user_file(home: Path, tmp_path: Path) -> None:
    arm = Arm().to_json()
    mine = tmp_path / "mine.py"
    mine.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    arm["model"]["position"] = {"kind": "Mine", "file": str(mine), "source": "0" * 16, "rate": 2.0}
    run_of(home, "a" * 16, arm)
    (row,) = listed("runs", "--json").json
    assert (row["state"], row["differs"]["model.position"]) == ("stopped", "Mine(rate=2.0)")
    assert ids(listed("runs", "--json", "--where", "model.position=Mine")) == ["a" * 16]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "content", ["{", "null", "[]", "{}", '{"arm": 3, "seed": 0}', '{"arm": {"task": "lm"}, "seed": 0}']
)
def test_an_unreadable_run_is_listed_as_such(home: Path, content: str) -> None:
    run_of(home, "b" * 16, Arm().to_json())
    run_of(home, "a" * 16, None).joinpath("run.json").write_text(content)
    done = listed("runs", "--json")
    assert {row["run"]: row["state"] for row in done.json} == {"b" * 16: "stopped", "a" * 16: "unreadable"}
    assert ids(listed("runs", "--json", "--where", "state=unreadable")) == ["a" * 16]
    assert ids(listed("runs", "--json", "--where", "model.position=Learned")) == ["b" * 16]
    assert listed("runs").code == 0


def test_an_unknown_task_or_figure_is_no_traceback(home: Path) -> None:
    run_of(home, "a" * 16, {**Arm().to_json(), "task": "poetry"})
    assert listed("runs", "--json").json[0]["state"] == "unreadable"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("what", ["corpora", "recipes", "settings", "studies", "parts"])
def test_lists_fit_the_terminal_and_break_no_word(what: str, width: int) -> None:
    shown, said = (listed(what, *more, width=width).out for more in ((), ("--json",)))
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown.replace("…", "", said.count("…"))
    whole = set(re.findall(r"[^\s\"]+", " ".join(_texts(json.loads(said)))))
    labels = {"knobs:", "=", "for:", "here", "takes", "expected", "arms,", "seeds,"}
    broken = {word for word in shown.split() if word not in labels and not {word, word.rstrip(",;")} & {*whole, ""}}
    assert not broken


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [str(value)]
