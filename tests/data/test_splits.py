"""Splits: nothing is lost, nothing is in two of them, and what a run read is what its identity says."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtohead import load_file
from headtohead.data import splits
from headtohead.data.corpora import (
    Corpus,
    Files,
    FolderCorpus,
    Held,
    Items,
    Shakespeare,
    Sotu,
    Speeches,
    Sst2,
    Text,
    corpora,
    corpus_named,
    sentences_of,
)
from headtohead.data.encoded import encode_sentences, encode_texts
from headtohead.data.preparations import AsIs, Lowercase, Plays, Preparation
from headtohead.data.splits import DataSpec, by_content, in_order, overlap_of_items, overlap_of_tokens
from headtohead.data.tokenizers import Byte, Word
from headtohead.errors import InputError, Unavailable

SHARED = Path(os.environ.get("HEADTOHEAD_DATA", "no such folder"))
few = settings(max_examples=80, deadline=None)


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not (SHARED / name).is_dir(), reason=f"HEADTOHEAD_DATA has no folder {name}")


def whole(text: Text | None) -> str:
    return "" if text is None else "".join(text.pieces())


def in_pieces(pieces: Iterable[str]) -> Text:
    pieces = list(pieces)
    return Text(lambda: iter(pieces))


# -- in order ----------------------------------------------------------------------------------------------------------

shares = st.floats(0, 0.45)
lines = st.lists(st.text("ab \n", max_size=30), max_size=30)


@few
@given(lines, shares, shares)
def test_parts_follow_each_other_and_are_the_text(pieces, validation, test):
    parts = in_order(in_pieces(pieces), validation, test)
    assert "".join(map(whole, parts)) == "".join(pieces)
    assert [part is None for part in parts] == [False, not validation, not test]
    assert whole(parts[0]) == whole(parts[0]), "a text can be read again"


@few
@given(st.lists(st.text("ab ", max_size=20).map(lambda t: t + "\n"), min_size=1), shares, shares)
def test_parts_are_cut_at_line_ends(pieces, validation, test):
    for part in in_order(in_pieces(pieces), validation, test):
        assert whole(part) == "" or whole(part).endswith("\n")


@few
@given(lines, shares, shares, st.integers(1, 7))
def test_how_a_text_comes_in_pieces_moves_no_cut(pieces, validation, test, size):
    text = "".join(pieces)
    otherwise = in_pieces(text[a : a + size] for a in range(0, len(text), size))
    for a, b in zip(in_order(in_pieces(pieces), validation, test), in_order(otherwise, validation, test), strict=True):
        assert whole(a) == whole(b)


def test_parts_are_as_large_as_told():
    text = "0123456\n" * 10_000
    train, validation, test = in_order(Text.of(text), 0.2, 0.1)
    assert [len(whole(p)) / len(text) for p in (train, validation, test)] == pytest.approx([0.7, 0.2, 0.1], abs=1e-3)


def test_a_text_without_lines_is_cut_where_told():
    train, validation, test = in_order(Text.of("x" * 100_000), 0.25, 0.25)
    assert [len(whole(p)) for p in (train, validation, test)] == [50_000, 25_000, 25_000]


# -- by content --------------------------------------------------------------------------------------------------------

labelled = st.lists(st.tuples(st.text("aAb \n", max_size=6), st.sampled_from("01")), max_size=60)


def items_of(rows: Iterable[tuple[str, str]]) -> Items:
    rows = list(rows)
    return Items([t for t, _ in rows], [y for _, y in rows])


def rows_of(items: Items) -> list[tuple[str, str]]:
    return list(zip(items.texts, items.labels, strict=True))


@few
@given(labelled, st.floats(0, 1, exclude_max=True), st.randoms(use_true_random=False))
def test_copies_stay_together_in_any_order(rows, share, dice):
    kept, carved = by_content(items_of(rows), share, "test")
    assert Counter(rows_of(kept) + rows_of(carved)) == Counter(rows)
    plain = [{" ".join(t.split()).lower() for t in side.texts} for side in (kept, carved)]
    assert not plain[0] & plain[1]
    assert overlap_of_items(kept, carved).share == 0
    assert rows_of(kept) == [row for row in rows if row[0] in set(kept.texts)], "in the file's order"
    dice.shuffle(rows)
    again = by_content(items_of(rows), share, "test")
    assert [Counter(rows_of(side)) for side in again] == [Counter(rows_of(side)) for side in (kept, carved)]


def test_the_carved_share_is_about_right():
    items = items_of((f"text {n}", "0") for n in range(20_000))
    for share in (0.0, 0.1, 0.5):
        assert len(by_content(items, share, "test")[1]) / 20_000 == pytest.approx(share, abs=0.01)


def test_two_carvings_are_independent():
    items = items_of((f"text {n}", "0") for n in range(20_000))
    train, test = by_content(items, 0.5, "test")
    assert len(by_content(train, 0.5, "validation")[1]) / len(train) == pytest.approx(0.5, abs=0.02)
    assert len(by_content(test, 0.5, "validation")[1]) / len(test) == pytest.approx(0.5, abs=0.02)


@few
@given(labelled, st.integers(1, 80), st.randoms(use_true_random=False))
def test_a_limit_takes_so_many_whatever_their_order(rows, count, dice):
    rows = list({t: (t, y) for t, y in rows}.values())
    some = splits.some_by_content(items_of(rows), count)
    assert len(some) == min(count, len(rows))
    assert rows_of(some) == [row for row in rows if row[0] in set(some.texts)], "in the file's order"
    fewer = splits.some_by_content(items_of(rows), max(1, count // 2))
    assert set(fewer.texts) <= set(some.texts), "a smaller one is part of a larger one"
    dice.shuffle(rows)
    assert set(splits.some_by_content(items_of(rows), count).texts) == set(some.texts)


def test_a_limit_is_of_training_texts_alone(tmp_path):
    path = tmp_path / "labelled.csv"
    path.write_text("text,label\n" + "".join(f"some text {n},{n % 2}\n" for n in range(200)), encoding="utf-8")
    data = DataSpec(corpus=Files(path=str(path)))
    whole, few = data.sentences(), data.set("limit", 20).sentences()
    assert (len(few.train), few.validation, few.test) == (20, whole.validation, whole.test)
    assert set(few.train.texts) <= set(whole.train.texts)
    (tmp_path / "a.txt").write_text("running text " * 50, encoding="utf-8")
    with pytest.raises(InputError, match="counts labelled texts"):
        DataSpec(corpus=Files(path=str(tmp_path / "a.txt")), limit=5).texts()


# -- preparations ------------------------------------------------------------------------------------------------------


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
def test_plays_keep_speech_alone_however_the_text_is_cut(lines, cuts):
    text = "\n".join(lines)
    kept = text.splitlines(keepends=True)
    at = sorted({0, len(kept), *(c for c in cuts if c < len(kept))})
    pieces = ["".join(kept[a:b]) for a, b in pairwise(at)]
    assert "".join(Plays().prepare(pieces)) == plays_by_the_rule(text)


def test_a_scene():
    text = "First Citizen:\nBefore we PROCEED.\nHear me.\n\nAll:\nSpeak, speak.\n\n\nKING HENRY:\nNo MORE of I.\n"
    assert "".join(Plays().prepare([text])) == "Before we Proceed.\nHear me.\nSpeak, speak.\nNo More of I.\n"


@pytest.mark.parametrize("mark", ["\x0c", "\u2028", "\x85", "\x1c"])
def test_a_form_feed_is_no_line_end(mark):
    text = f"A:\nso it ends{mark}\nand goes on\n"
    assert "".join(Plays().prepare([text])) == plays_by_the_rule(text)


@needs("shakespeare")
def test_all_of_shakespeare_by_the_rule():
    raw = (SHARED / "shakespeare" / "input.txt").read_text(encoding="utf-8")
    data = DataSpec(corpus=Shakespeare(), prepare=Plays(), validation=0.1, test=0.1)
    texts = data.texts()
    joined = whole(texts.train) + whole(texts.validation) + whole(texts.tests["test"])
    assert joined == plays_by_the_rule(raw)
    assert len(raw) == 1_115_394


def test_the_plain_preparations():
    pieces = ["Ab\n", "C É"]
    assert list(AsIs().prepare(pieces)) == pieces
    assert list(Lowercase().prepare(pieces)) == ["ab\n", "c é"]


# -- a corpus, prepared and split --------------------------------------------------------------------------------------


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


TEXT = "".join(f"Line {n} of the text.\n" for n in range(400))


def table(start: int, stop: int) -> str:
    return "text\tlabel\n" + "".join(f"Text number {n}\t{n % 2}\n" for n in range(start, stop))


def test_what_a_file_lacks_is_carved_out_of_it(tmp_path):
    texts = DataSpec(corpus=Files(path=write(tmp_path, "a.txt", TEXT)), prepare=Lowercase()).texts()
    assert list(texts.tests) == ["test"]
    parts = [whole(t) for t in (texts.train, texts.validation, texts.tests["test"])]
    assert "".join(parts) == TEXT.lower()
    assert [len(p) / len(TEXT) for p in parts] == pytest.approx([0.8, 0.1, 0.1], abs=0.01)


def test_files_given_apart_are_used_and_nothing_is_carved_twice(tmp_path):
    train, other, third = (
        write(tmp_path, "a.txt", TEXT),
        write(tmp_path, "b.txt", "B\n"),
        write(tmp_path, "c.txt", "C\n"),
    )
    both = DataSpec(corpus=Files(path=train, validation=Held(other), test=Held(third))).texts()
    assert [whole(t) for t in (both.train, both.validation, both.tests["test"])] == [TEXT, "B\n", "C\n"]
    validated = DataSpec(corpus=Files(path=train, validation=Held(other)), prepare=Lowercase()).texts()
    assert whole(validated.validation) == "b\n"
    assert whole(validated.train) + whole(validated.tests["test"]) == TEXT.lower()
    assert len(whole(validated.train)) / len(TEXT) == pytest.approx(0.9, abs=0.01)
    tested = DataSpec(corpus=Files(path=train, test=Held(third))).texts()
    assert whole(tested.tests["test"]) == "C\n"
    assert whole(tested.train) + whole(tested.validation) == TEXT
    none = DataSpec(corpus=Files(path=train), validation=0, test=0).texts()
    assert (whole(none.train), none.validation, none.tests) == (TEXT, None, {})


def test_sentences_of_files_given_apart(tmp_path):
    train, other = write(tmp_path, "a.tsv", table(0, 500)), write(tmp_path, "b.tsv", table(500, 520))
    carved = DataSpec(corpus=Files(path=train), prepare=Lowercase()).sentences()
    rows = [rows_of(s) for s in (carved.train, carved.validation, carved.test)]
    assert sorted(chain(*rows)) == sorted((f"text number {n}", str(n % 2)) for n in range(500))
    assert all(rows)
    given = DataSpec(
        corpus=Files(path=train, validation=Held(other), test=Held(other)), prepare=Lowercase()
    ).sentences()
    assert len(given.train) == 500
    assert given.validation.texts == given.test.texts == [f"text number {n}" for n in range(500, 520)]


def test_a_table_is_running_text_too(tmp_path):
    texts = DataSpec(corpus=Files(path=write(tmp_path, "a.tsv", table(0, 50))), validation=0, test=0).texts()
    assert whole(texts.train) == "".join(f"Text number {n}\n" for n in range(50))


class Doubled(Preparation):
    """Each text twice: done twice, it shows."""

    equation: ClassVar[str] = "text text"
    reference: ClassVar[str] = "this test"

    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        return (piece + piece for piece in pieces)


def test_every_set_is_prepared_once(tmp_path):
    found = DataSpec(corpus=Files(path=write(tmp_path, "a.tsv", table(0, 200))), prepare=Doubled()).sentences()
    for items in (found.train, found.validation, found.test):
        assert {text.count("number") for text in items.texts} == {2}


def test_shares_of_sentences_are_shares_of_the_whole(tmp_path):
    data = DataSpec(corpus=Files(path=write(tmp_path, "a.tsv", table(0, 5000))), validation=0.4, test=0.5)
    found = data.sentences()
    assert [len(s) / 5000 for s in (found.train, found.validation, found.test)] == pytest.approx(
        [0.1, 0.4, 0.5], abs=0.03
    )


def test_shares_that_leave_nothing_are_refused():
    with pytest.raises(InputError, match="leave nothing to train on"):
        DataSpec(validation=0.5, test=0.5)


# -- identity ----------------------------------------------------------------------------------------------------------


def resolved(corpus: Corpus) -> DataSpec:
    return DataSpec(corpus=dataclasses.replace(corpus, content=corpus.fingerprint()))


def test_moving_a_file_changes_nothing_and_changing_it_does(tmp_path):
    (tmp_path / "else").mkdir()
    here, there = write(tmp_path, "a.txt", TEXT), write(tmp_path / "else", "b.txt", TEXT)
    assert resolved(Files(path=here)).id == resolved(Files(path=there)).id
    before = resolved(Files(path=here)).id
    write(tmp_path, "a.txt", TEXT + "x")
    assert resolved(Files(path=here)).id != before
    held = [resolved(Files(path=there, validation=Held(f))).id for f in (here, there)]
    assert held[0] != held[1]
    assert resolved(Files(path=there, text="a")).id != resolved(Files(path=there)).id


def test_a_file_for_validation_is_not_one_for_testing(tmp_path):
    train, other = write(tmp_path, "a.txt", TEXT), write(tmp_path, "b.txt", "Other text.\n" * 20)
    a, b = Files(path=train, validation=Held(other)), Files(path=train, test=Held(other))
    assert resolved(a).id != resolved(b).id
    encode_texts(DataSpec(corpus=a), Byte())
    second = encode_texts(DataSpec(corpus=b), Byte())
    assert second.held["test"].bytes == 240


def test_how_a_file_is_read_is_part_of_what_it_is(tmp_path):
    as_text, as_table = write(tmp_path, "a.txt", table(0, 99)), write(tmp_path, "a.tsv", table(0, 99))
    assert resolved(Files(path=as_text)).id != resolved(Files(path=as_table)).id


@pytest.mark.parametrize("corpus", [c for c in corpora() if isinstance(c, FolderCorpus)], ids=lambda c: c.name)
def test_a_known_folder_has_one_identity_wherever_it_lies(corpus, tmp_path, monkeypatch):
    if isinstance(corpus, Shakespeare):
        pytest.skip("its text is known, so its identity is too")
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    ids = []
    for folder in (tmp_path / "one", tmp_path / "two" / corpus.name):
        folder.mkdir(parents=True)
        for file in corpus.needs:
            write(folder, file, table(0, 9) + file)
        ids.append(resolved(type(corpus)(path=str(folder))).id)
    monkeypatch.setenv("HEADTOHEAD_DATA", str(tmp_path / "two"))
    assert resolved(corpus).id == ids[0] == ids[1]
    write(tmp_path / "two" / corpus.name, corpus.needs[-1], table(0, 8))
    assert resolved(corpus).id != ids[0]


# -- overlap -----------------------------------------------------------------------------------------------------------


def overlap_by_sets(train: list[int], held: list[int], run: int) -> float:
    seen = {tuple(train[a : a + run]) for a in range(len(train) - run + 1)}
    runs = [tuple(held[a : a + run]) for a in range(len(held) - run + 1)]
    return sum(r in seen for r in runs) / max(1, len(runs))


few_ids = st.lists(st.integers(0, 2), max_size=60)


@settings(max_examples=200, deadline=None)
@given(few_ids, few_ids, st.integers(1, 5))
def test_overlap_is_what_sets_of_runs_say(train, held, run):
    found = overlap_of_tokens(np.array(train, np.uint16), np.array(held, np.uint16), run)
    assert found.share == pytest.approx(overlap_by_sets(train, held, run))
    assert not found.sampled
    assert found.of == f"runs of {run} tokens"


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_overlap_in_chunks_misses_no_run(chunk):
    tokens = np.arange(50, dtype=np.uint16)
    found = np.concatenate(list(splits._run_hashes(tokens, 12, 1, chunk)))
    assert len(found) == len(set(found.tolist())) == 39
    assert found.tolist() == next(splits._run_hashes(tokens, 12, 1)).tolist()


def test_a_sample_of_long_texts_estimates_fairly():
    dice = np.random.default_rng(0)
    train, held = dice.integers(0, 5000, 40_000), dice.integers(0, 5000, 40_000)
    held[10_000:30_000] = train[:20_000]
    exact, estimate = overlap_of_tokens(train, held), overlap_of_tokens(train, held, most=4_000)
    assert (exact.sampled, estimate.sampled) == (False, True)
    assert exact.share == pytest.approx(overlap_by_sets(train.tolist(), held.tolist(), 12))
    assert estimate.share == pytest.approx(exact.share, abs=0.04)


def test_copies_among_items_are_counted():
    train = Items(["A b", "c"], ["0", "1"])
    held = Items(["a  B\n", "d", "c", "c"], ["0"] * 4)
    assert overlap_of_items(train, held).share == 0.75
    assert overlap_of_items(train, Items([], [])).share == 0


# -- the State of the Union --------------------------------------------------------------------------------------------


def paragraphs(text: str) -> set[str]:
    return {p.strip() for p in text.split("\n\n") if len(p) > 200}


def test_no_address_is_in_two_splits_and_three_presidents_are_held_out():
    corpus = Sotu()
    rows = corpus._rows()
    texts = DataSpec(corpus=corpus).texts()
    sets = {"train": texts.train, "validation": texts.validation, **texts.tests}
    assert list(sets) == ["train", "validation", "obama", "wbush", "hbush"]
    where = {}
    for name, text in sets.items():
        for piece in text.pieces():
            assert where.setdefault(piece, name) == name, "one piece is one address"
    assert len(where) == len(rows)
    for row in rows:
        name = where[corpus._read(row).strip() + "\n\n"]
        assert name == Sotu.HELD.get(row["president_id"], name)
        assert (name in ("train", "validation")) == (row["president_id"] not in Sotu.HELD)
    train = paragraphs(whole(texts.train))
    for name in ("obama", "wbush", "hbush"):
        assert len(paragraphs(whole(sets[name])) & train) == 0, name


def test_a_later_start_leaves_the_held_out_presidents_alone():
    early, late = Sotu().texts(), Sotu(since=1990).texts()
    assert len(whole(late.train)) < len(whole(early.train)) / 3
    for name in ("obama", "wbush", "hbush"):
        assert whole(late.tests[name]) == whole(early.tests[name])
    assert Sotu(since=1990).id != Sotu().id


def test_the_speakers_last_addresses_are_for_testing():
    found = DataSpec(corpus=Sotu()).sentences()
    assert set(found.train.labels) == set(found.test.labels) == {"obama", "wbush", "hbush"}
    last = Sotu()._read([r for r in Sotu()._rows() if r["president_id"] == "obama"][-1])
    assert sentences_of(last) == [t for t, y in rows_of(found.test) if y == "obama"]
    assert overlap_of_items(found.train, found.validation).share == 0
    assert overlap_of_items(found.train, found.test).share < 0.03, "thank you, and God bless America"


def test_sentences_end_where_they_end():
    text = 'We met. "Did you?" he asked [Laughter] -- yes! The U.S. economy grew\nby 3.5 percent.\n\nNext one\n\n...\n'
    assert sentences_of(text) == [
        "We met.",
        '"Did you?" he asked -- yes!',
        "The U.S. economy grew by 3.5 percent.",
        "Next one",
    ]


# -- corpora by name ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("corpus", corpora(), ids=lambda c: c.name)
def test_every_corpus_says_what_it_is_for_and_what_it_lacks(corpus, monkeypatch):
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    assert set(corpus.tasks) <= {"lm", "classifier"}
    assert corpus.tasks
    assert "\n" not in corpus.lacks()
    assert bool(corpus.lacks()) == (corpus.name != "sotu"), "with an empty cache and no data folder"
    assert corpus.name
    for task, read in (("lm", corpus.texts), ("classifier", corpus.sentences)):
        if task not in corpus.tasks:
            with pytest.raises(InputError, match="h2h train"):
                read()


def test_a_corpus_that_is_not_here_says_where_to_put_it(monkeypatch):
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    for corpus in (Speeches(), Sst2()):
        with pytest.raises(Unavailable, match="HEADTOHEAD_DATA"):
            corpus.fingerprint()
        with pytest.raises(Unavailable, match="HEADTOHEAD_DATA"):
            corpus.sentences()


def test_corpora_by_name_by_folder_and_by_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert corpus_named("sotu") == Sotu()
    assert corpus_named(write(tmp_path, "a.txt", "x")) == Files(path=str(tmp_path / "a.txt"))
    folder = tmp_path / "mine"
    folder.mkdir()
    for file in Sst2.needs:
        write(folder, file, table(0, 9))
    assert corpus_named(str(folder)) == Sst2(path=str(folder))
    assert len(corpus_named(str(folder)).sentences().train) == 9
    assert corpus_named("a.txt").tasks == ("lm",)


WRONG = {
    "sotuu": "did you mean sotu",
    "nothing.txt": "no file",
    "empty": "is a folder without the files",
    "a.pdf": ".pdf",
}


@pytest.mark.parametrize(("name", "words"), WRONG.items(), ids=WRONG)
def test_a_corpus_nobody_knows_is_said_in_one_line(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write(tmp_path, "a.pdf", "x")
    with pytest.raises(InputError, match=re.escape(words)) as error:
        corpus_named(name)
    assert "\n" not in str(error.value)


def test_running_text_has_no_labels(tmp_path):
    with pytest.raises(InputError, match="no labels"):
        DataSpec(corpus=Files(path=write(tmp_path, "a.txt", TEXT))).sentences()


@needs("sst2")
def test_sst2_has_its_known_size():
    found = DataSpec(corpus=Sst2()).sentences()
    assert [len(s) for s in (found.train, found.validation, found.test)] == [6920, 872, 1821]
    assert set(found.test.labels) == {"0", "1"}


@needs("speeches")
def test_speeches_hold_out_three_speakers():
    texts = DataSpec(corpus=Speeches()).texts()
    assert list(texts.tests) == ["obama", "wbush", "hbush"]
    raw = (SHARED / "speeches" / "train_LM.txt").read_text(encoding="utf-8")
    assert whole(texts.train) + whole(texts.validation) == raw.removeprefix("\ufeff")
    found = DataSpec(corpus=Speeches()).sentences()
    assert set(found.train.labels) == set(found.test.labels) == {"0", "1", "2"}
    assert overlap_of_items(found.train, found.validation).share == 0


@needs("speeches")
def test_the_reports_vocabulary_has_the_words_of_both_training_files():
    from headtohead.data.encoded import encode_sentences, encode_texts

    own, both = (DataSpec(corpus=Speeches(vocabulary=v), validation=0) for v in ("own", "both"))
    texts, sentences = encode_texts(both, Word()), encode_sentences(both, Word())
    assert sorted(texts.vocabulary.names()) == sorted(sentences.vocabulary.names())
    apart = [set(encode(own, Word()).vocabulary.names()) for encode in (encode_texts, encode_sentences)]
    assert set(texts.vocabulary.names()) == set.union(*apart)
    assert texts.held["obama"].unknown < encode_texts(own, Word()).held["obama"].unknown
    assert (texts.train.tokens != texts.vocabulary.unknown).all()


# -- encoded and kept --------------------------------------------------------------------------------------------------


def test_tokens_kept_are_tokens_made(tmp_path):
    data = DataSpec(corpus=Files(path=write(tmp_path, "a.txt", TEXT + "naïve\n")))
    made, kept = encode_texts(data, Byte()), encode_texts(data, Byte())
    joined = b"".join(bytes((s.tokens - 2).astype(np.uint8)) for s in (kept.train, *kept.held.values()))
    assert joined.decode() == TEXT + "naïve\n"
    assert sum(s.bytes for s in (kept.train, *kept.held.values())) == len(joined)
    for a, b in zip((made.train, *made.held.values()), (kept.train, *kept.held.values()), strict=True):
        assert a.tokens.tolist() == b.tokens.tolist()
    assert (list(kept.held), kept.tests) == (["validation", "test"], ("test",))
    assert kept.train.overlap is None
    assert kept.held["test"].overlap.share == pytest.approx(
        overlap_by_sets(kept.train.tokens.tolist(), kept.held["test"].tokens.tolist(), 12)
    )


def test_words_are_learned_from_the_training_part_alone(tmp_path):
    text = "".join(f"word{n}\n" for n in range(1000))
    data = DataSpec(corpus=Files(path=write(tmp_path, "a.txt", text)))
    found = encode_texts(data, Word())
    assert set(found.vocabulary.names()[2:]) == set(whole(data.texts().train).split())
    assert (found.train.unknown, found.held["test"].unknown, found.held["validation"].unknown) == (0, 1, 1)


def test_sentences_kept_are_sentences_read(tmp_path):
    data = DataSpec(corpus=Files(path=write(tmp_path, "a.tsv", table(0, 300))))
    found, items = encode_sentences(data, Word()), data.sentences()
    assert set(found.vocabulary.names()[2:]) == {w for t in items.train.texts for w in t.split()}
    assert found.labels == found.says == ("0", "1")
    for kept, read in ((found.train, items.train), (found.held["validation"], items.validation)):
        encoded = found.vocabulary.encode(read.texts)
        assert [found.labels[y] for y in kept.items.labels] == read.labels
        assert kept.items.lengths.tolist() == [len(e) for e in encoded]
        assert kept.items.tokens.tolist() == np.concatenate(encoded).tolist()
    assert found.held["test"].overlap.share == 0


def test_labels_are_in_the_order_of_their_numbers(tmp_path):
    rows = "text\tlabel\n" + "".join(f"text {n}\t{n % 12}\n" for n in range(600))
    found = encode_sentences(DataSpec(corpus=Files(path=write(tmp_path, "a.tsv", rows))), Word())
    assert found.labels == tuple(map(str, range(12)))


def test_a_preparation_of_the_users_changes_what_is_read(tmp_path):
    data = DataSpec(corpus=Files(path=write(tmp_path, "a.txt", TEXT)), validation=0, test=0)
    code = (
        "from headtohead.data.preparations import Preparation\n\n\nclass Shout(Preparation):\n"
        '    """Loud."""\n\n    equation = "T"\n    reference = "this test"\n\n'
        "    def prepare(self, pieces):\n        return (piece.upper() for piece in pieces)\n"
    )
    shout = load_file(write(tmp_path, "shout.py", code)).Shout()
    loud = dataclasses.replace(data, prepare=shout)
    assert whole(loud.texts().train) == TEXT.upper()
    assert encode_texts(loud, Byte()).train.tokens.tolist() != encode_texts(data, Byte()).train.tokens.tolist()


def test_one_class_is_too_few_and_a_strange_label_is_refused(tmp_path):
    one = write(tmp_path, "one.tsv", "text\tlabel\n" + "".join(f"text {n}\tx\n" for n in range(40)))
    with pytest.raises(InputError, match="one class only"):
        encode_sentences(DataSpec(corpus=Files(path=one)), Word())
    strange = write(tmp_path, "b.tsv", table(0, 20).replace("number 3\t1", "number 3\t7"))
    train = write(tmp_path, "a.tsv", table(20, 300))
    with pytest.raises(
        InputError, match=r"the label '7', which training never shows: give more texts of that class, or.* --label"
    ):
        encode_sentences(DataSpec(corpus=Files(path=train, test=Held(strange))), Word())


def test_the_split_is_the_one_that_old_results_had():
    rows = [(f"Text  {n}", str(n % 2)) for n in range(300)]
    first = [int(hashlib.sha256(f"test/text {n}".encode()).hexdigest()[:16], 16) / 2**64 < 0.2 for n in range(300)]
    assert rows_of(by_content(items_of(rows), 0.2, "test")[1]) == [r for r, f in zip(rows, first, strict=True) if f]
