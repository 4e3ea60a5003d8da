"""Blocks in the docs are written from what is stored, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.errors import InputError
from headtohead.reproduce import blocks, kept

ROOT = Path(__file__).parents[2]


@pytest.fixture
def write(outcome, tmp_path):
    kept.write(outcome, tmp_path / "stored" / "tiny.json")

    def loaded(name):
        return kept.unpacked(tmp_path / "stored" / f"{name}.json", tmp_path / "room")

    return blocks.writer([], [], [], loaded, ROOT)


def test_what_stands_between_the_marks_is_written_anew(write):
    text = "before\n<!-- stored: verdicts tiny -->\nsomething typed by hand\n<!-- /stored -->\nafter\n"
    made = blocks.filled(text, write)
    assert made.startswith("before\n<!-- stored: verdicts tiny -->\n| arm |")
    assert made.endswith("<!-- /stored -->\nafter\n")
    assert "typed by hand" not in made
    assert blocks.filled(made, write) == made


def test_means_are_those_of_the_runs(write, tmp_path):
    runs = kept.read(tmp_path / "stored" / "tiny.json")
    control = runs["study"]["tables"][0]["arms"][0]
    values = [runs["runs"][run]["result"]["values"]["validation/loss"] for run in control["runs"].values()]
    line = next(line for line in write("means tiny validation/loss").splitlines() if f"| {control['name']} " in line)
    assert f"{sum(values) / 6:.4f} ({min(values):.4f} … {max(values):.4f})" in line


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks" / "measured").glob("*.json")), ids=lambda f: f.stem)
def test_every_stored_benchmark_is_shown(file, write):
    said = json.loads(file.read_text(encoding="utf-8"))
    more = [s["task"] for s in said] if file.stem == "steps" else [""]
    for task in more:
        assert write(f"benchmark {file.stem} {task}".rstrip()).count("|") > 8
    pages = "".join(page.read_text(encoding="utf-8") for page in blocks.pages(ROOT))
    assert f"<!-- stored: benchmark {file.stem}" in pages


@pytest.mark.parametrize("what", ["verdicts other", "means other test/loss", "benchmark other"])
def test_what_is_not_measured_is_said(what, write):
    assert write(what) == "Not measured yet: other."


def test_an_unknown_block_is_named(write):
    with pytest.raises(InputError, match="not 'opinions'"):
        write("opinions")
