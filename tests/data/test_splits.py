"""Splits: nothing is lost, nothing is in two of them, and what a run read is what its identity says."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtohead.data import splits
from headtohead.data.corpora import (
    Files,
    Held,
    Items,
    Text,
)
from headtohead.data.encoded import encode_texts
from headtohead.data.preparations import Lowercase, Preparation
from headtohead.data.splits import DataSpec, by_content, in_order, overlap_of_items, overlap_of_tokens
from headtohead.data.tokenizers import Byte
from headtohead.errors import InputError
from helpers.data import (
    LINES,
    overlap_by_sets,
    resolved,
    rows_of,
    tsv,
    whole,
    write,
)

few = settings(max_examples=80, deadline=None)


def in_pieces(pieces: Iterable[str]) -> Text:
    pieces = list(pieces)
    return Text(lambda: iter(pieces))


# -- in order ----------------------------------------------------------------------------------------------------------

shares = st.floats(0, 0.45)
lines = st.lists(st.text("ab \n", max_size=30), max_size=30)


@few
@given(lines, shares, shares)
def test_splits_in_order_join_to_the_text(pieces, validation, test):
    parts = in_order(in_pieces(pieces), validation, test)
    assert "".join(map(whole, parts)) == "".join(pieces)
    assert [part is None for part in parts] == [False, not validation, not test]
    assert whole(parts[0]) == whole(parts[0]), "a text can be read again"


@few
@given(st.lists(st.text("ab ", max_size=20).map(lambda t: t + "\n"), min_size=1), shares, shares)
def test_splits_end_at_line_ends(pieces, validation, test):
    for part in in_order(in_pieces(pieces), validation, test):
        assert whole(part) == "" or whole(part).endswith("\n")


@few
@given(lines, shares, shares, st.integers(1, 7))
def test_splits_do_not_depend_on_the_pieces_of_a_text(pieces, validation, test, size):
    text = "".join(pieces)
    otherwise = in_pieces(text[a : a + size] for a in range(0, len(text), size))
    for a, b in zip(in_order(in_pieces(pieces), validation, test), in_order(otherwise, validation, test), strict=True):
        assert whole(a) == whole(b)


def test_splits_have_the_asked_sizes():
    text = "0123456\n" * 10_000
    train, validation, test = in_order(Text.of(text), 0.2, 0.1)
    assert [len(whole(p)) / len(text) for p in (train, validation, test)] == pytest.approx([0.7, 0.2, 0.1], abs=1e-3)


def test_a_text_without_line_ends_is_cut_at_the_share():
    train, validation, test = in_order(Text.of("x" * 100_000), 0.25, 0.25)
    assert [len(whole(p)) for p in (train, validation, test)] == [50_000, 25_000, 25_000]


# -- by content --------------------------------------------------------------------------------------------------------

labelled = st.lists(st.tuples(st.text("aAb \n", max_size=6), st.sampled_from("01")), max_size=60)


def items_of(rows: Iterable[tuple[str, str]]) -> Items:
    rows = list(rows)
    return Items([t for t, _ in rows], [y for _, y in rows])


@few
@given(labelled, st.floats(0, 1, exclude_max=True), st.randoms(use_true_random=False))
def test_copies_of_a_text_stay_in_one_split(rows, share, dice):
    kept, carved = by_content(items_of(rows), share, "test")
    assert Counter(rows_of(kept) + rows_of(carved)) == Counter(rows)
    plain = [{" ".join(t.split()).lower() for t in side.texts} for side in (kept, carved)]
    assert not plain[0] & plain[1]
    assert overlap_of_items(kept, carved).share == 0
    assert rows_of(kept) == [row for row in rows if row[0] in set(kept.texts)], "in the file's order"
    dice.shuffle(rows)
    again = by_content(items_of(rows), share, "test")
    assert [Counter(rows_of(side)) for side in again] == [Counter(rows_of(side)) for side in (kept, carved)]


def test_the_carved_share_is_near_the_asked_share():
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
def test_a_limit_keeps_the_same_texts_in_any_order(rows, count, dice):
    rows = list({t: (t, y) for t, y in rows}.values())
    some = splits.some_by_content(items_of(rows), count)
    assert len(some) == min(count, len(rows))
    assert rows_of(some) == [row for row in rows if row[0] in set(some.texts)], "in the file's order"
    fewer = splits.some_by_content(items_of(rows), max(1, count // 2))
    assert set(fewer.texts) <= set(some.texts), "a smaller one is part of a larger one"
    dice.shuffle(rows)
    assert set(splits.some_by_content(items_of(rows), count).texts) == set(some.texts)


def test_a_limit_applies_to_training_texts_only(tmp_path):
    path = tmp_path / "labelled.csv"
    path.write_text("text,label\n" + "".join(f"some text {n},{n % 2}\n" for n in range(200)), encoding="utf-8")
    data = DataSpec(corpus=Files(path=str(path)))
    whole, few = data.sentences(), data.set("limit", 20).sentences()
    assert (len(few.train), few.validation, few.test) == (20, whole.validation, whole.test)
    assert set(few.train.texts) <= set(whole.train.texts)
    (tmp_path / "a.txt").write_text("running text " * 50, encoding="utf-8")
    with pytest.raises(InputError, match="counts labelled texts"):
        DataSpec(corpus=Files(path=str(tmp_path / "a.txt")), limit=5).texts()


# -- a corpus, prepared and split --------------------------------------------------------------------------------------


def test_missing_splits_are_carved_from_training(tmp_path):
    texts = DataSpec(corpus=Files(path=write(tmp_path, "a.txt", LINES)), prepare=Lowercase()).texts()
    assert list(texts.tests) == ["test"]
    parts = [whole(t) for t in (texts.train, texts.validation, texts.tests["test"])]
    assert "".join(parts) == LINES.lower()
    assert [len(p) / len(LINES) for p in parts] == pytest.approx([0.8, 0.1, 0.1], abs=0.01)


def test_files_given_for_a_split_are_used_whole(tmp_path):
    train, other, third = (
        write(tmp_path, "a.txt", LINES),
        write(tmp_path, "b.txt", "B\n"),
        write(tmp_path, "c.txt", "C\n"),
    )
    both = DataSpec(corpus=Files(path=train, validation=Held(other), test=Held(third))).texts()
    assert [whole(t) for t in (both.train, both.validation, both.tests["test"])] == [LINES, "B\n", "C\n"]
    validated = DataSpec(corpus=Files(path=train, validation=Held(other)), prepare=Lowercase()).texts()
    assert whole(validated.validation) == "b\n"
    assert whole(validated.train) + whole(validated.tests["test"]) == LINES.lower()
    assert len(whole(validated.train)) / len(LINES) == pytest.approx(0.9, abs=0.01)
    tested = DataSpec(corpus=Files(path=train, test=Held(third))).texts()
    assert whole(tested.tests["test"]) == "C\n"
    assert whole(tested.train) + whole(tested.validation) == LINES
    none = DataSpec(corpus=Files(path=train), validation=0, test=0).texts()
    assert (whole(none.train), none.validation, none.tests) == (LINES, None, {})


def test_tables_given_for_a_split_are_used_whole(tmp_path):
    train, other = write(tmp_path, "a.tsv", tsv(0, 500)), write(tmp_path, "b.tsv", tsv(500, 520))
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
    texts = DataSpec(corpus=Files(path=write(tmp_path, "a.tsv", tsv(0, 50))), validation=0, test=0).texts()
    assert whole(texts.train) == "".join(f"Text number {n}\n" for n in range(50))


class Doubled(Preparation):
    """Each text twice: done twice, it shows."""

    equation: ClassVar[str] = "text text"
    reference: ClassVar[str] = "this test"

    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        return (piece + piece for piece in pieces)


def test_every_set_is_prepared_once(tmp_path):
    found = DataSpec(corpus=Files(path=write(tmp_path, "a.tsv", tsv(0, 200))), prepare=Doubled()).sentences()
    for items in (found.train, found.validation, found.test):
        assert {text.count("number") for text in items.texts} == {2}


def test_shares_of_sentences_are_shares_of_the_whole(tmp_path):
    data = DataSpec(corpus=Files(path=write(tmp_path, "a.tsv", tsv(0, 5000))), validation=0.4, test=0.5)
    found = data.sentences()
    assert [len(s) / 5000 for s in (found.train, found.validation, found.test)] == pytest.approx(
        [0.1, 0.4, 0.5], abs=0.03
    )


def test_shares_that_leave_no_training_text_are_refused():
    with pytest.raises(InputError, match="leave nothing to train on"):
        DataSpec(validation=0.5, test=0.5)


# -- identity ----------------------------------------------------------------------------------------------------------


def test_moving_a_file_keeps_the_id_and_editing_changes_it(tmp_path):
    (tmp_path / "else").mkdir()
    here, there = write(tmp_path, "a.txt", LINES), write(tmp_path / "else", "b.txt", LINES)
    assert resolved(Files(path=here)).id == resolved(Files(path=there)).id
    before = resolved(Files(path=here)).id
    write(tmp_path, "a.txt", LINES + "x")
    assert resolved(Files(path=here)).id != before
    held = [resolved(Files(path=there, validation=Held(f))).id for f in (here, there)]
    assert held[0] != held[1]
    assert resolved(Files(path=there, text="a")).id != resolved(Files(path=there)).id


def test_a_file_for_validation_is_not_one_for_testing(tmp_path):
    train, other = write(tmp_path, "a.txt", LINES), write(tmp_path, "b.txt", "Other text.\n" * 20)
    a, b = Files(path=train, validation=Held(other)), Files(path=train, test=Held(other))
    assert resolved(a).id != resolved(b).id
    encode_texts(DataSpec(corpus=a), Byte())
    second = encode_texts(DataSpec(corpus=b), Byte())
    assert second.held["test"].bytes == 240


def test_how_a_file_is_read_is_part_of_its_id(tmp_path):
    as_text, as_table = write(tmp_path, "a.txt", tsv(0, 99)), write(tmp_path, "a.tsv", tsv(0, 99))
    assert resolved(Files(path=as_text)).id != resolved(Files(path=as_table)).id


# -- overlap -----------------------------------------------------------------------------------------------------------


few_ids = st.lists(st.integers(0, 2), max_size=60)


@settings(max_examples=200, deadline=None)
@given(few_ids, few_ids, st.integers(1, 5))
def test_overlap_matches_a_set_computation(train, held, run):
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


# -- encoded and kept --------------------------------------------------------------------------------------------------


def test_splits_match_those_of_stored_results():
    rows = [(f"Text  {n}", str(n % 2)) for n in range(300)]
    first = [int(hashlib.sha256(f"test/text {n}".encode()).hexdigest()[:16], 16) / 2**64 < 0.2 for n in range(300)]
    assert rows_of(by_content(items_of(rows), 0.2, "test")[1]) == [r for r, f in zip(rows, first, strict=True) if f]
