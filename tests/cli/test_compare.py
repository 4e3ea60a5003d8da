"""h2h compare as typed: every source once, and one clear line for every kind of bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.external import table_lines, write_samples
from helpers.terminal import Type, imported_by, is_one_line

GOOD = "\n".join(table_lines())
HEAD = "arm,seed,loss\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "good.csv").write_text(GOOD)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_table_on_80_columns(type_in: Type) -> None:
    done = type_in("compare", "good.csv", "--metric", "loss", "--arm", "arm", "--seed", "seed", "--margin", "1%")
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    assert [line.split()[-1] for line in done.out.splitlines() if line.startswith(("baseline", "rope"))] == [
        "control",
        "better",
    ]


@pytest.mark.usefixtures("folder")
def test_json(type_in: Type) -> None:
    said = type_in("compare", "good.csv", "--control", "rope", "--json").json
    assert said["verdicts"]["baseline"]["verdict"] == "worse"


def test_against_takes_all_that_the_shell_expands(folder: Path, type_in: Type) -> None:
    for line in table_lines()[1:]:
        arm, seed, loss = line.split(",")
        (folder / f"{arm}-{seed}.log").write_text(f"val_loss={loss}\n")
        (folder / f"third-{seed}.log").write_text(f"val_loss={float(loss) + 0.1}\n")
    files = {arm: sorted(map(str, folder.glob(f"{arm}-*.log"))) for arm in ("baseline", "rope", "third")}
    options = ["--pattern", "val_loss=([0-9.]+)", "--metric", "loss", "--json"]
    said = type_in("compare", *files["baseline"], "--against", *files["rope"], *options).json
    assert {value["arm"] for value in said["values"]} == {"baseline", "rope"}
    assert len(said["values"]) == 12
    both = type_in(
        "compare",
        "--better",
        "lower",
        *files["baseline"],
        "--against",
        *files["rope"],
        "--against",
        *files["third"],
        *options,
    ).json
    assert list(both["means"]) == ["baseline", "rope", "third"]


@pytest.mark.usefixtures("folder")
def test_it_imports_no_torch() -> None:
    done, modules = imported_by("compare", "good.csv")
    assert "better" in done.out
    assert not {"torch", "pandas", "matplotlib", "tensorboard", "wandb"} & modules


def values(arm: str, seeds: range, *, value: str = "") -> str:
    return "".join(f"{arm},{seed},{value or f'2.{seed}371{len(arm)}'}\n" for seed in seeds)


BAD: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "no such file": ({}, ["nothing.csv"], "there is no file or folder 'nothing.csv'"),
    "no match of a pattern": ({}, ["no*.csv"], "no file or folder matches"),
    "empty": ({"a.csv": ""}, ["a.csv"], "a.csv is empty"),
    "blank": ({"a.csv": " \n\n"}, ["a.csv"], "a.csv is empty"),
    "names only": ({"a.csv": HEAD}, ["a.csv"], "no rows"),
    "binary": ({"a.csv": b"\x00\x01\x02" * 99}, ["a.csv"], "binary file"),
    "latin-1": ({"a.csv": HEAD.encode() + b"caf\xe9,1,2\n"}, ["a.csv"], "not UTF-8"),
    "wrong metric": ({}, ["good.csv", "--metric", "los"], "did you mean loss"),
    "wrong arm": ({}, ["good.csv", "--arm", "model"], "no column 'model' for --arm"),
    "wrong seed": ({}, ["good.csv", "--seed", "sed"], "did you mean seed"),
    "one arm": ({"a.csv": HEAD + values("a", range(6))}, ["a.csv"], "only one arm was found, 'a'"),
    "no arm column": ({"a.csv": "seed,loss\n1,2\n2,3\n"}, ["a.csv"], "only one arm"),
    "text in numbers": (
        {"a.csv": GOOD + "\nrope,9,bad"},
        ["a.csv", "--metric", "loss"],
        "line 14: 'bad' in column 'loss'",
    ),
    "decimal comma": ({"a.csv": "arm;seed;loss\na;1;2,5\nb;1;2,6\n"}, ["a.csv", "--metric", "loss"], "'2,5'"),
    "no numbers at all": ({"a.csv": "arm,seed,note\na,1,x\nb,1,y\n"}, ["a.csv"], "no column of numbers"),
    "ragged rows": ({"a.csv": GOOD + "\nrope,9"}, ["a.csv"], "line 14: 2 cells under 3 column names"),
    "column twice": ({"a.csv": "arm,loss,loss\na,1,2\n"}, ["a.csv"], "'loss' twice"),
    "no column names": ({"a.csv": "1,2,3\n4,5,6\n"}, ["a.csv"], "no column names"),
    "no arm in a row": ({"a.csv": GOOD + "\n,9,2"}, ["a.csv"], "line 14: no arm"),
    "several metrics": ({"a.csv": "arm,seed,x,y\na,1,2,3\nb,1,2,3\n"}, ["a.csv"], "which metric"),
    "unknown direction": ({"a.csv": GOOD.replace("loss", "zeta")}, ["a.csv"], "add --better"),
    "nan only": (
        {"a.csv": HEAD + values("a", range(6)) + values("b", range(6), value="nan")},
        ["a.csv"],
        "b has no value",
    ),
    "all infinite": (
        {"a.csv": HEAD + values("a", range(6)) + values("b", range(6), value="inf")},
        ["a.csv"],
        "b has no value",
    ),
    "repeated seeds": ({"a.csv": GOOD + "\nrope,5,2.7"}, ["a.csv"], "rope has 2 values for seed 5"),
    "seed without effect": (
        {"a.csv": HEAD + values("a", range(6)) + values("b", range(6), value="2.123456789")},
        ["a.csv"],
        "the seed has no effect",
    ),
    "huge numbers": (
        {"a.csv": HEAD + values("a", range(6), value="-1.6e308") + values("b", range(6), value="1.6e308")},
        ["a.csv"],
        "",
    ),
    "damaged JSON": ({"a.jsonl": '{"arm": "a", "loss": 1}\n{"arm":'}, ["a.jsonl"], "line 2 is not JSON"),
    "lists in JSON": ({"a.jsonl": '{"arm": "a", "loss": 1}\n[1, 2]'}, ["a.jsonl"], "line 2: a list"),
    "other JSON": ({"a.json": '{\n "x": {"y": 1}\n}'}, ["a.json"], "line 1 is not JSON"),
    "plain text": ({"a.log": "hello\n", "b.log": "hello\n"}, ["a.log", "b.log"], "--pattern"),
    "pattern without a group": ({"a.log": "loss=1\n"}, ["a.log", "--pattern", "loss"], "has no group"),
    "invalid pattern": ({"a.log": "loss=1\n"}, ["a.log", "--pattern", "loss=("], "not a regular expression"),
    "no match": ({"a.log": "loss=1\n"}, ["a.log", "--pattern", "acc=(.*)"], "nothing matches"),
    "match without number": ({"a.log": "loss=x\n"}, ["a.log", "--pattern", "loss=(.*)"], "'x', which is not a number"),
    "seed pattern without a match": (
        {"a.log": "loss=1\n"},
        ["a.log", "--pattern", "loss=(.*)", "--seed-pattern", "run(.)"],
        "does not match the name 'a'",
    ),
    "mixed formats": ({"a.log": "loss=1\n"}, ["good.csv", "a.log"], "the formats differ"),
    "different metrics": (
        {"a.csv": "seed,x\n1,2\n", "b.csv": "seed,y\n1,2\n"},
        ["a.csv", "b.csv"],
        "different metrics",
    ),
    "folder without runs": ({"runs/x.bin": b"\x00"}, ["runs"], "runs holds no runs"),
    "no value at the step": (
        {"a.csv": "arm,seed,step,loss\na,1,5,2\nb,1,5,3\n"},
        ["a.csv", "--step", "7"],
        "nearest is 5",
    ),
    "margin is no number": ({}, ["good.csv", "--margin", "small"], "percentage"),
    "negative margin": ({}, ["good.csv", "--margin=-1"], "above zero"),
    "wrong direction": ({}, ["good.csv", "--better", "more"], "lower or higher"),
    "wrong choice": ({}, ["good.csv", "--take", "median"], "last, first or best"),
    "unknown control": ({}, ["good.csv", "--control", "base"], "did you mean baseline"),
    "both sides": ({}, ["good.csv", "--against", "good.csv"], "both sides"),
    "nothing after --against": ({}, ["good.csv", "--against"], "requires an argument"),
    "no argument": ({}, [], "Missing argument"),
    "not events": ({"a/x.tfevents.1": b"\x00" * 90, "b/x.tfevents.1": b"\x00" * 90}, ["a", "b"], "a"),
    "not W&B": ({"run-a.wandb": b"xx", "run-b.wandb": b"yy"}, ["run-a.wandb", "run-b.wandb"], "not a file of W&B"),
    "no log_history": ({"a/trainer_state.json": "{}"}, ["a"], "no log_history"),
    "averages of lm-eval": ({"r.json": '{\n"results": {},\n"configs": {}}'}, ["r.json"], "--log_samples"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_one_line(kind: str, folder: Path, type_in: Type) -> None:
    files, arguments, says = BAD[kind]
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    is_one_line(type_in("compare", *arguments), says)


def test_an_unreadable_file_is_one_line(folder: Path, type_in: Type) -> None:
    if os.geteuid() == 0:
        os.mkfifo(folder / "pipe.csv")  # root may read every file
        is_one_line(type_in("compare", "pipe.csv"), "neither a file nor a folder")
    else:
        (folder / "good.csv").chmod(0)
        is_one_line(type_in("compare", "good.csv"), "cannot read good.csv")


def test_samples_say_what_they_cover(folder: Path, type_in: Type) -> None:
    for name, share in (("samples_a", 0.5), ("samples_b", 0.9)):
        write_samples(folder / f"{name}.jsonl", share)
    done = type_in("compare", "samples_a.jsonl", "samples_b.jsonl", "--metric", "acc")
    assert done.code == 0, done.err
    assert "items, not seeds" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    json.loads(type_in("compare", "samples_a.jsonl", "samples_b.jsonl", "--metric", "acc", "--json").out)
