"""h2h score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.runs import CLASSIFIER, LM, SMALL_OPTIONS
from helpers.terminal import Type, h2h, is_one_line


def test_score_gives_a_loss_for_every_token(text: Path, type_in: Type) -> None:
    run = type_in(*LM, "--data", text, "--set", "evaluate.snapshots=(0,)", "--json").json[0]["run"]
    for said in ("we", "we the people of this union and a long way past the block", "line\nbreaks\n"):
        found = type_in("score", run[:5], said, "--json").json
        assert len(found["tokens"]) == len(found["losses"]) == len(said.encode())
        assert found["losses"][0] is None
        assert found["loss"] == pytest.approx(sum(found["losses"][1:]) / (len(said) - 1))
    assert type_in("score", "latest", "-", "--json", stdin=said).json == found
    assert type_in("score", run, said, "--step", 0, "--json").json["loss"] > found["loss"]
    shown = type_in("score", run, said)
    assert shown.code == 0
    assert "nats a token" in shown.out


def test_score_shows_the_start_of_a_long_text(text: Path, type_in: Type, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    type_in("train", "lm", *SMALL_OPTIONS, "--set", "tokenizer=Word", "--steps", 1, "--data", text)
    words = ("we the people of this union and a " * 100).split()
    shown = type_in("score", "latest", " ".join(words)).out
    lines = shown.splitlines()
    assert "… and 400 tokens more; --json has them all" in lines
    stream = lines[: lines.index("… and 400 tokens more; --json has them all")]
    assert max(map(len, stream)) <= 40
    assert [word for line in stream for word in line.rstrip("·").split("·")] == words[:400]
    assert len(type_in("score", "latest", " ".join(words), "--json").json["tokens"]) == 800


def test_an_unknown_or_unfit_run_is_one_line(text: Path, table: Path, type_in: Type) -> None:
    lm = type_in(*LM, "--data", text, "--json").json[0]["run"]
    classifier = type_in(*CLASSIFIER, "--data", table, "--json").json[0]["run"]
    is_one_line(type_in("score", "zzz", "hello"), "no run 'zzz'")
    is_one_line(type_in("score", "", "hello"), "is the prefix of 2 runs")
    is_one_line(type_in("score", classifier, "hello"), "use h2h classify")
    is_one_line(type_in("classify", lm, "hello"), "use h2h score")
    is_one_line(type_in("score", lm, "a"), "fewer than two tokens")
    is_one_line(type_in("score", lm, "-", stdin=""), "fewer than two tokens")
    is_one_line(type_in("score", lm, "hello", "--step", 1), "has no weights of step 1")
    is_one_line(type_in("classify", classifier, "-", stdin=""), "no text to classify")
    is_one_line(type_in("classify", classifier, ""), "has no token")


@pytest.mark.parametrize("given", ["argument", "standard input"])
def test_text_that_is_not_utf_8_is_one_line(given: str, text: Path, type_in: Type) -> None:
    type_in(*LM, "--data", text)
    if given == "argument":
        done = type_in("score", "latest", "caf\udce9 au lait", "--json")
    else:
        done = type_in("score", "latest", "-", stdin=b"caf\xe9 au lait")
    if given == "argument":
        assert done.json["error"] in done.err
        done = done._replace(out="")
    is_one_line(done, "UTF-8")


def test_bits_per_byte_counts_predicted_bytes(ids):
    said = h2h("score", ids[0], "abcd", "--json").json
    nats = sum(x for x in said["losses"] if x is not None)
    assert said["bits_per_byte"] == pytest.approx(nats / np.log(2) / 3)
