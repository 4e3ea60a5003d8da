"""Preparations of text: plays, lowercase, and one that the user wrote."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtohead import load_file
from headtohead.data.corpora import (
    Files,
    Shakespeare,
)
from headtohead.data.encoded import encode_texts
from headtohead.data.preparations import AsIs, Lowercase, Plays
from headtohead.data.splits import DataSpec
from headtohead.data.tokenizers import Byte
from helpers.data import (
    LINES,
    SHARED,
    needs,
    whole,
    write,
)

few = settings(max_examples=80, deadline=None)


lines = st.lists(st.text("ab \n", max_size=30), max_size=30)


def plays_by_the_rule(text: str) -> str:
    lines = text.split("\n")
    ends = ["\n"] * (len(lines) - 1) + [""]
    kept = [
        line + end
        for n, (line, end) in enumerate(zip(lines, ends, strict=True))
        if line.strip() and n > 0 and lines[n - 1].strip()
    ]
    return re.sub(r"\b[A-Z][A-Z]+\b", lambda m: m[0][0] + m[0][1:].lower(), "".join(kept))


play = st.lists(st.sampled_from(["", "", " ", "KING:", "Come, SIR JOHN", "I am", "A", "O GOD's", "x"]), max_size=20)


@few
@given(play, st.lists(st.integers(0, 20)))
def test_plays_keep_only_speech_however_the_text_is_cut(lines, cuts):
    text = "\n".join(lines)
    kept = text.splitlines(keepends=True)
    at = sorted({0, len(kept), *(c for c in cuts if c < len(kept))})
    pieces = ["".join(kept[a:b]) for a, b in pairwise(at)]
    assert "".join(Plays().prepare(pieces)) == plays_by_the_rule(text)


def test_plays_prepare_a_scene():
    text = "First Citizen:\nBefore we PROCEED.\nHear me.\n\nAll:\nSpeak, speak.\n\n\nKING HENRY:\nNo MORE of I.\n"
    assert "".join(Plays().prepare([text])) == "Before we Proceed.\nHear me.\nSpeak, speak.\nNo More of I.\n"


@pytest.mark.parametrize("mark", ["\x0c", "\u2028", "\x85", "\x1c"])
def test_a_form_feed_is_no_line_end(mark):
    text = f"A:\nso it ends{mark}\nand goes on\n"
    assert "".join(Plays().prepare([text])) == plays_by_the_rule(text)


@needs("shakespeare")
def test_plays_match_the_rule_on_all_of_shakespeare():
    raw = (SHARED / "shakespeare" / "input.txt").read_text(encoding="utf-8")
    data = DataSpec(corpus=Shakespeare(), prepare=Plays(), validation=0.1, test=0.1)
    texts = data.texts()
    joined = whole(texts.train) + whole(texts.validation) + whole(texts.tests["test"])
    assert joined == plays_by_the_rule(raw)
    assert len(raw) == 1_115_394


def test_as_is_and_lowercase_do_what_they_say():
    pieces = ["Ab\n", "C É"]
    assert list(AsIs().prepare(pieces)) == pieces
    assert list(Lowercase().prepare(pieces)) == ["ab\n", "c é"]


def test_a_preparation_of_the_user_changes_the_tokens(tmp_path):
    data = DataSpec(corpus=Files(path=write(tmp_path, "a.txt", LINES)), validation=0, test=0)
    code = (
        "from headtohead.data.preparations import Preparation\n\n\nclass Shout(Preparation):\n"
        '    """Loud."""\n\n    equation = "T"\n    reference = "this test"\n\n'
        "    def prepare(self, pieces):\n        return (piece.upper() for piece in pieces)\n"
    )
    shout = load_file(write(tmp_path, "shout.py", code)).Shout()
    loud = dataclasses.replace(data, prepare=shout)
    assert whole(loud.texts().train) == LINES.upper()
    assert encode_texts(loud, Byte()).train.tokens.tolist() != encode_texts(data, Byte()).train.tokens.tolist()
