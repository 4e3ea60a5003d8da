"""Encoded texts: tokens are kept, made once, and learned from the training part alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtohead.data.corpora import (
    Files,
    Held,
    Sotu,
    Text,
)
from headtohead.data.encoded import _cut, _groups, _write_tokens, encode_sentences, encode_texts
from headtohead.data.preparations import AsIs, Lowercase, Plays
from headtohead.data.splits import DataSpec
from headtohead.data.tokenizers import (
    Bpe,
    Byte,
    Character,
    Word,
)
from headtohead.errors import InputError
from helpers.data import (
    LINES,
    ids_of,
    learned,
    overlap_by_sets,
    tsv,
    whole,
    write,
)


def test_cached_tokens_equal_fresh_tokens(tmp_path):
    data = DataSpec(corpus=Files(path=write(tmp_path, "a.txt", LINES + "naïve\n")))
    made, kept = encode_texts(data, Byte()), encode_texts(data, Byte())
    joined = b"".join(bytes((s.tokens - 2).astype(np.uint8)) for s in (kept.train, *kept.held.values()))
    assert joined.decode() == LINES + "naïve\n"
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


def test_encoded_sentences_match_the_file(tmp_path):
    data = DataSpec(corpus=Files(path=write(tmp_path, "a.tsv", tsv(0, 300))))
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


def test_one_class_or_an_unseen_label_is_refused(tmp_path):
    one = write(tmp_path, "one.tsv", "text\tlabel\n" + "".join(f"text {n}\tx\n" for n in range(40)))
    with pytest.raises(InputError, match="only one class"):
        encode_sentences(DataSpec(corpus=Files(path=one)), Word())
    strange = write(tmp_path, "b.tsv", tsv(0, 20).replace("number 3\t1", "number 3\t7"))
    train = write(tmp_path, "a.tsv", tsv(20, 300))
    with pytest.raises(
        InputError,
        match=r"the label '7', which is not in the training data: give more texts of that class, or.* --label",
    ):
        encode_sentences(DataSpec(corpus=Files(path=train, test=Held(strange))), Word())


few = settings(max_examples=60, deadline=None)


EXACT = [Byte(), Bpe(vocab=258), Bpe(vocab=300), Bpe(vocab=300, match="longest"), Bpe(vocab=300, special=("[SEP]",))]


@given(st.lists(st.text("ab \n\r", max_size=80)), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_joined_cut_pieces_equal_the_text(pieces, size):
    found = list(_cut(iter(pieces), size))
    assert "".join(found) == "".join(pieces)
    assert all(0 < len(piece) <= 2 * size for piece in found)
    assert [p for group in _groups(found, 3) for p in group] == found


def test_pieces_end_with_a_line_or_before_a_space():
    text = "one two\nthree four five six\nseven"
    assert list(_cut(iter([text]), 10)) == ["one two\n", "three", " four five six\nseven"]
    assert list(_cut(iter(["x" * 25]), 10)) == ["x" * 10, "x" * 15]


@pytest.mark.parametrize("spec", [*EXACT, Word(), Character()], ids=str)
@few
@given(lines=st.lists(st.text("abé the,.'", min_size=1, max_size=20).filter(lambda t: t.strip() == t), max_size=12))
def test_text_cut_at_line_ends_keeps_its_tokens(spec, lines):
    """Where lines neither begin nor end with white space: else the white space around the cut is cut too."""
    text = "".join(line + "\n" for line in lines)
    pieces = list(_cut(iter([text]), 21))
    assert all(piece.endswith("\n") for piece in pieces)
    assert [i for ids in learned(spec).encode(pieces) for i in ids] == ids_of(spec, text)


@few
@given(st.text("ab \n", max_size=80))
def test_a_cut_changes_only_tokens_of_white_space_around_it(text):
    spec = Bpe(vocab=258)
    assert [i for p in _cut(iter([text]), 5) for i in ids_of(spec, p)] == ids_of(spec, text), "of bytes, nothing"
    spec = Bpe(vocab=300)
    pieces = list(_cut(iter([text]), 5))
    assert learned(spec).decode(i for p in pieces for i in ids_of(spec, p)) == text


def test_the_first_token_of_each_document_is_kept(tmp_path):
    pieces = ["ab\n", "cdef\n" * 20_000, "", "gh\n"]  # the second is longer than what is encoded at once
    for documents in (True, False):
        text = Text(lambda: iter(pieces), documents)
        found = _write_tokens(text, learned(Byte()), tmp_path / f"{documents}.bin")
        assert found["tokens"] == 100_006
        assert found["documents"] == ([0, 3, 100_003] if documents else None)


@pytest.mark.parametrize(("prepare", "keeps"), [(AsIs(), True), (Lowercase(), True), (Plays(), False)])
def test_addresses_are_documents_unless_a_preparation_joins_them(prepare, keeps):
    found = encode_texts(DataSpec(corpus=Sotu(), prepare=prepare), Byte()).held["hbush"]
    if not keeps:
        assert found.documents is None
        return
    text = bytes((np.asarray(found.tokens) - 2).astype(np.uint8))
    assert found.documents[0] == 0
    assert len(found.documents) >= 3
    assert all(text[begin - 2 : begin] == b"\n\n" and text[begin : begin + 1].strip() for begin in found.documents[1:])
    assert all(np.diff(found.documents) > 10_000)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("a,0\na,1\n" * 20, "the labels contradict each other: 'a' is both 0 and 1; correct the labels"),
        ("a,0\n" * 20, "only one class, '0': a classifier needs two"),
    ],
)
def test_one_class_is_explained(rows, says, tmp_path, home):  # noqa: ARG001
    (tmp_path / "mine.csv").write_text("text,label\n" + rows)
    with pytest.raises(InputError, match=says):
        encode_sentences(DataSpec(Files(path=str(tmp_path / "mine.csv"))), Byte())
