"""Blocks of the docs are filled from stored results and from nothing else."""

from __future__ import annotations

import json

import pytest

import doc_blocks
from headtohead.claims import stored
from headtohead.claims.workflow import Results
from headtohead.errors import InputError
from stored_results import ROOT

NOTHING = Results([], [], [], [], [], [], [], None)


@pytest.fixture
def write(outcome, tmp_path):
    stored.write(outcome, tmp_path / "stored" / "tiny.json")
    return doc_blocks.writer(
        NOTHING, lambda name: stored.unpacked(tmp_path / "stored" / f"{name}.json", tmp_path / "room")
    )


def test_block_is_replaced_and_other_text_kept(write):
    text = "before\n<!-- stored: verdicts tiny -->\nsomething typed by hand\n<!-- /stored -->\nafter\n"
    made = doc_blocks.filled(text, write)
    assert made.startswith("before\n<!-- stored: verdicts tiny -->\n| arm |")
    assert made.endswith("<!-- /stored -->\nafter\n")
    assert "typed by hand" not in made
    assert doc_blocks.filled(made, write) == made


def test_means_block_has_mean_and_range_of_the_runs(write, tmp_path):
    runs = stored.read(tmp_path / "stored" / "tiny.json")
    control = runs.study.tables[0].control
    values = [runs.runs[run].result["values"]["validation/loss"] for run in control.runs.values()]
    line = next(line for line in write("means tiny validation/loss").splitlines() if f"| {control.name} " in line)
    assert f"{sum(values) / 6:.4f} ({min(values):.4f} … {max(values):.4f})" in line


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks" / "measured").glob("*.json")), ids=lambda f: f.stem)
def test_every_stored_benchmark_is_in_a_page(file, write):
    results = json.loads(file.read_text(encoding="utf-8"))
    for task in [r["task"] for r in results] if file.stem == "steps" else [""]:
        assert write(f"benchmark {file.stem} {task}".rstrip()).count("|") > 8
    pages = "".join(page.read_text(encoding="utf-8") for page in doc_blocks.pages(ROOT))
    assert f"<!-- stored: benchmark {file.stem}" in pages


@pytest.mark.parametrize("what", ["verdicts other", "means other test/loss", "benchmark other"])
def test_block_without_results_says_not_measured(what, write):
    assert write(what) == "Not measured yet: other."


def test_block_of_unknown_kind_is_refused(write):
    with pytest.raises(InputError, match="not 'opinions'"):
        write("opinions")
