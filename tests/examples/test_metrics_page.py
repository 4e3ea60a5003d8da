"""docs/reference/metrics.md names exactly the fields that runs write to metrics.jsonl and times.json."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from headtohead import Arm, Mqar, RunSpec
from headtohead.run.store import Record
from helpers.docs import ROOT
from helpers.runs import trained_record
from helpers.stores import trained

PAGE = ROOT / "docs" / "reference" / "metrics.md"
SETS = ("train", "validation", "test")


class Field(NamedTuple):
    name: str
    unit: str
    task: str
    line: str


def documented() -> list[Field]:
    rows = re.findall(
        r"^\| `([^`]+)` \| ([^|]+) \| (both|lm|classifier|answers) \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE
    )
    return [Field(*(cell.strip() for cell in row)) for row in rows]


def keys(task: str, line: str = "") -> set[str]:
    chosen = [f.name for f in documented() if f.task in (task, "both") and line in f.line]
    return {name.replace("SET", part) for name in chosen for part in (SETS if "SET" in name else ("",))}


@pytest.fixture
def runs(home: Path, text: Path, table: Path) -> dict[str, Record]:
    watched = "evaluate.watch_test=true"
    answering = Arm.of("lm", Mqar(pairs=2, length=8, keys=4, values=4, tested=64, examples=64))
    return {
        "lm": trained(home, "lm", text, "train.steps=20", watched),
        "classifier": trained(home, "classifier", table, "train.epochs=2", watched),
        "answers": trained_record(RunSpec(arm=answering.settings(["train.steps=20", watched])).resolved(), home),
    }


@pytest.mark.parametrize("task", ["lm", "classifier", "answers"])
def test_runs_write_the_documented_fields(task: str, runs: dict[str, Record]) -> None:
    lines = runs[task].metrics
    assert {key for line in lines for key in line} == keys(task) - {"status"}
    assert lines[0].keys() == keys(task, "every line") | keys(task, "evaluation")
    assert lines[-1].keys() == keys(task) - {"status"}
    assert any(line.keys() == keys(task, "every line") | keys(task, "after step 0") for line in lines)


@pytest.mark.parametrize("task", ["lm", "classifier", "answers"])
def test_values_have_the_documented_units(task: str, runs: dict[str, Record]) -> None:
    record = runs[task]
    assert record.result is not None
    shares = {f.name.replace("SET", "test") for f in documented() if f.task == task and f.unit.startswith("share")}
    for line in record.metrics:
        for key in shares & line.keys():
            assert 0 <= line[key] <= 1
        if "test/perplexity" in line:
            assert line["test/perplexity"] == pytest.approx(math.exp(line["test/loss"]))
            facts = record.result.data["sets"]["test"]
            bits = line["test/loss"] * facts["tokens"] / facts["bytes"] / math.log(2)
            assert line["test/bits_per_byte"] == pytest.approx(bits)
    chance = math.log({"lm": 256, "classifier": 2, "answers": record.result.data["vocabulary"]}[task])
    assert record.metrics[0]["test/loss"] == pytest.approx(chance, rel=0.1)


def test_test_metrics_are_absent_unless_watched(home: Path, text: Path) -> None:
    record = trained(home, "lm", text, "train.steps=10")
    assert not [key for line in record.metrics for key in line if key.startswith("test/")]
    assert record.result is not None
    assert "test/loss" in record.result.values


def test_a_diverged_run_ends_with_its_status(home: Path, text: Path) -> None:
    record = trained(home, "lm", text, "train.steps=20", "train.optimizer=SGD(lr=1e30)")
    assert record.metrics[-1].keys() == {"step", "status"}
    assert record.metrics[-1]["status"] == "diverged"


def test_times_have_the_documented_fields(runs: dict[str, Record]) -> None:
    section = PAGE.read_text().partition("| field of times.json |")[2]
    named = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    times = runs["lm"].times
    assert times.to_json().keys() == named
    steps = [str(line["step"]) for line in runs["lm"].metrics if "test/loss" in line]
    assert list(times.seconds_at) == steps
    seconds = list(times.seconds_at.values())
    assert seconds[0] == 0
    assert seconds == sorted(seconds)
    assert 0 < seconds[-1] <= (times.seconds or 0)
