"""h2h table."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.stores import Shelf
from helpers.terminal import Type, is_one_line


def test_a_run_is_a_table_of_80_columns(shelf: Shelf, typed: Type) -> None:
    done = typed("table", shelf.lm.id, "--metric", "perplexity", "--every", 20)
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()[1:]] == ["step", "0", "20", "40", "end"]
    assert max(map(len, (done.out + done.err).splitlines())) <= 80


def test_a_study_is_a_table_for_each_set(typed: Type) -> None:
    done = typed("table", "tiny", "--sets", "validation")
    assert done.out.splitlines()[1].split() == ["step", "Learned", "Rope", "NoPosition"]
    assert "mean ± sd of 2 seeds" in done.out


@pytest.mark.parametrize(
    ("name", "start"), [("t.md", "accuracy (%)"), ("t.csv", "step,epoch"), ("t.tex", "% \\use"), ("t.txt", "accuracy")]
)
def test_a_file_is_written_as_its_name_ends(name: str, start: str, shelf: Shelf, typed: Type, tmp_path: Path) -> None:
    done = typed("table", shelf.classifier.id, "--out", tmp_path / name)
    assert (done.code, done.out) == (0, "")
    assert (tmp_path / name).read_text().startswith(start)


def test_a_format_is_printed_and_json_holds_the_rows(shelf: Shelf, typed: Type) -> None:
    assert "| ---: | ---: |" in typed("table", shelf.lm.id, "--format", "markdown").out
    (run,) = typed("table", shelf.lm.id, "--json").json["runs"]
    assert [row["step"] for row in run["rows"]] == [0, 10, 20, 30, 40]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("table", "Missing argument"),
        ("table nope", "no run 'nope'"),
        ("table latest --format xml", "there is no format 'xml'"),
        ("table latest --out t.doc", "ends in one of .txt, .md, .csv, .tex"),
        ("table latest --every 0", "--every"),
        ("table latest --every 4", "evaluations are 3 steps apart"),
        ("table latest --sets batches", "name a data set too"),
        ("table latest --sets test", "--set evaluate.watch_test=true"),
        ("table latest --metric loss --metric foo", "language models have no foo"),
    ],
)
def test_bad_input_is_one_line(arguments: str, says: str, typed: Type) -> None:
    is_one_line(typed(*arguments.split()), says)
