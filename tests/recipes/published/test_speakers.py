"""The training text of 004's third claim: sentences of chosen speakers, none of which stands in a test text."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.spec.userfiles import RECIPES, load_file

QUOTED = "we will build two bridges over this very wide river"
NAMES = ("obama", "wbush", "hbush")


@pytest.fixture
def spoken_by(tmp_path: Path):
    for name in NAMES:
        (tmp_path / f"test_LM_{name}.txt").write_text("Before it.\n" + (QUOTED if name == "wbush" else "") + "\n")
    (tmp_path / "train_LM.txt").write_text("Of no matter here.\n")
    own = [f"{label}\tsentence {n} of speaker {label}" for label in range(3) for n in range(5)]
    # quoted with another case and other marks; and one twice, in the other file
    (tmp_path / "train_CLS.tsv").write_text("\n".join(["0\tAnd so: We will build - two BRIDGES over this very!", *own]))
    (tmp_path / "test_CLS.tsv").write_text("0\tsentence 0 of speaker 0\n0\tThe last one.\n")
    recipe = load_file(RECIPES / "published" / "speakers.py")
    return lambda **said: recipe.SpokenBy(path=str(tmp_path), **said).texts()


def lines(texts) -> list[str]:
    return "".join(texts.train.pieces()).splitlines()


def test_one_speaker_gives_each_sentence_once_without_tests(spoken_by):
    texts = spoken_by(who="0")
    assert lines(texts) == [f"sentence {n} of speaker 0" for n in range(5)] + ["The last one."]
    assert list(texts.tests) == list(NAMES)


def test_each_speaker_gives_as_many_sentences(spoken_by):
    assert lines(spoken_by(count=6)) == [f"sentence {n} of speaker {who}" for who in range(3) for n in range(2)]
    assert len(lines(spoken_by(who="1", count=4))) == 4
