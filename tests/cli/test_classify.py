"""h2h classify."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.corpora import ROWS, written
from helpers.runs import CLASSIFIER
from helpers.terminal import Type


def test_classify_labels_each_text(table: Path, type_in: Type) -> None:
    run = type_in(*CLASSIFIER[:-1], 60, "--data", table, "--json").json[0]["run"]
    found = type_in("classify", run, "good 3 times", "bad 3 times", "x" * 99, "--json").json
    assert [f["label"] for f in found[:2]] == ["up", "down"]
    assert [f["cut"] for f in found] == [False, False, True]
    for f in found:
        assert sum(f["probabilities"].values()) == pytest.approx(1)
    piped = type_in("classify", run, "-", "--json", stdin="good 3 times\nbad 3 times\n").json
    assert piped == found[:2]
    shown = type_in("classify", run, "good [bold]3[/bold] times")
    assert "[bold]3[/bold]" in shown.out


def test_labels_with_brackets_are_printed(tmp_path: Path, type_in: Type) -> None:
    rows = [(text, {"up": "[pos]", "down": "[/neg]"}[label]) for text, label in ROWS]
    shown = type_in(*CLASSIFIER, "--data", written(tmp_path, "mine.csv", rows))
    assert shown.code == 0
    assert shown.out.count("[pos]") == shown.out.count("[/neg]") == 2
    shown = type_in("classify", "latest", "good 3 times")
    assert shown.code == 0
    assert "[pos]" in shown.out
    assert "[/neg]" in shown.out


def test_classify_skips_blank_lines_and_shows_unknown_words(tmp_path: Path, type_in: Type) -> None:
    options = [*CLASSIFIER, "--set", "tokenizer=Word", "--data", written(tmp_path, "mine.csv")]
    type_in(*options)
    done = type_in("classify", "latest", "-", "--json", stdin="good 3 times\n\n  \nbad zzz\n")
    assert [f["text"] for f in done.json] == ["good 3 times", "bad zzz"]
    assert done.err == "h2h: blank lines of standard input are left out: 2, 3\n"
    assert "unknown" not in type_in("classify", "latest", "good 3 times").out
    shown = type_in("classify", "latest", "bad zzz", "qqq zzz")
    assert "unknown" in shown.out
    assert "50%" in shown.out
    assert "no word of 'qqq zzz' was seen in training: its label is a guess" in shown.out
    assert "no word of 'bad" not in shown.out
