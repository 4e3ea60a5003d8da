"""Tokenized corpora. A corpus is tokenized once, stored in the cache folder and memory-mapped from there.

The name of a stored folder is a hash of everything that the tokens depend on, so they are never out of date. The
folder can be deleted at any time.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.data.batches import Encoded
from headtohead.data.cache import cache_folder, make_folder
from headtohead.data.corpora import Items, Text
from headtohead.data.splits import DataSpec, Overlap, overlap_of_items, overlap_of_tokens
from headtohead.data.tokenizers import Tokenizer, Vocabulary
from headtohead.errors import InputError

FORMAT = 3  # version of the stored folders; increase it when their content changes


@dataclass(frozen=True)
class TextSet:
    """The tokens of one set of running text, and its size in bytes."""

    tokens: np.ndarray
    bytes: int
    unknown: float  # share of tokens that are not in the vocabulary
    overlap: Overlap | None = None  # with the training set


@dataclass(frozen=True)
class EncodedTexts:
    """A tokenized corpus of running text."""

    vocabulary: Vocabulary
    train: TextSet
    held: dict[str, TextSet]  # validation, then each test set by name
    tests: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        sets = {"train": self.train, **self.held}
        return {name: _facts(len(s.tokens), s, "tokens") | {"bytes": s.bytes} for name, s in sets.items()}


@dataclass(frozen=True)
class SentenceSet:
    """One set of labelled texts."""

    items: Encoded
    unknown: float
    overlap: Overlap | None = None


@dataclass(frozen=True)
class EncodedSentences:
    """A tokenized corpus of labelled texts."""

    vocabulary: Vocabulary
    labels: tuple[str, ...]  # as written in the data, in the order of the classes
    says: tuple[str, ...]  # meaning of each label
    train: SentenceSet
    held: dict[str, SentenceSet]
    tests: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        sets = {"train": self.train, **self.held}
        return {
            name: _facts(len(s.items), s, "texts") | {"tokens": len(s.items.tokens), "classes": self._classes(s)}
            for name, s in sets.items()
        }

    def _classes(self, s: SentenceSet) -> dict[str, int]:
        return dict(zip(self.says, np.bincount(s.items.labels, minlength=len(self.labels)).tolist(), strict=True))


def _facts(count: int, s: TextSet | SentenceSet, unit: str) -> dict[str, Any]:
    return {unit: count, "unknown": s.unknown, "overlap": s.overlap and asdict(s.overlap)}


# -- running text ------------------------------------------------------------------------------------------------------


def encode_texts(data: DataSpec, tokenizer: Tokenizer) -> EncodedTexts:
    """Return the tokens of running text, from the cache or computed now."""
    folder = _folder("texts", data, tokenizer)
    if not folder.is_dir():
        _store(folder, lambda new: _encode_texts(data, tokenizer, new))
    facts = _read_facts(folder)
    sets = {name: _text_set(folder, name, facts) for name in facts["sets"]}
    train = sets.pop("train")
    return EncodedTexts(tokenizer.restore(facts["vocabulary"]), train, sets, tuple(facts["tests"]))


def _encode_texts(data: DataSpec, tokenizer: Tokenizer, folder: Path) -> None:
    texts = data.texts()
    vocabulary = tokenizer.learn(itertools.chain(texts.train.pieces(), _pieces(texts.words)))
    sets: dict[str, Text] = {"train": texts.train}
    if texts.validation is not None:
        sets["validation"] = texts.validation
    clash = sets.keys() & texts.tests.keys()
    if clash:
        raise InputError(f"a test set may not be called {', '.join(clash)}: rename it")
    sets |= texts.tests
    facts: dict[str, Any] = {"vocabulary": vocabulary.state(), "tests": list(texts.tests), "sets": {}}
    for name, text in sets.items():
        facts["sets"][name] = _write_tokens(text, vocabulary, folder / f"{name}.bin")
    train = _mapped(folder / "train.bin", vocabulary.dtype)
    for name, fact in facts["sets"].items():
        if name != "train":
            fact["overlap"] = asdict(overlap_of_tokens(train, _mapped(folder / f"{name}.bin", vocabulary.dtype)))
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


def _pieces(words: Text | None) -> Iterator[str]:
    return words.pieces() if words else iter(())


def _write_tokens(text: Text, vocabulary: Vocabulary, path: Path) -> dict[str, Any]:
    count = bytes_ = unknown = 0
    with open(path, "wb") as file:
        for group in _groups(_cut(text.pieces(), 1 << 14), 64):  # a megabyte at a time, encoded in parallel
            for piece, ids in zip(group, vocabulary.encode_running(group), strict=True):
                ids.tofile(file)
                count += len(ids)
                unknown += int((ids == vocabulary.unknown).sum())
                bytes_ += len(piece.encode("utf-8", "surrogatepass"))
    return {"bytes": bytes_, "tokens": count, "unknown": unknown / max(1, count), "dtype": vocabulary.dtype.__name__}


def _cut(pieces: Iterator[str], size: int) -> Iterator[str]:
    """Cut a text into pieces of about `size` characters, at line ends, else before a space."""
    for piece in pieces:
        at = 0
        while len(piece) - at > 2 * size:
            stop = piece.rfind("\n", at, at + size) + 1 or piece.rfind(" ", at, at + size)
            stop = stop if stop > at else at + size
            yield piece[at:stop]
            at = stop
        if piece[at:]:
            yield piece[at:]


def _groups(pieces: Iterable[str], size: int) -> Iterator[list[str]]:
    pieces = iter(pieces)
    while group := list(itertools.islice(pieces, size)):
        yield group


def _text_set(folder: Path, name: str, facts: dict[str, Any]) -> TextSet:
    fact = facts["sets"][name]
    tokens = _mapped(folder / f"{name}.bin", np.dtype(fact["dtype"]))
    overlap = fact.get("overlap")
    return TextSet(tokens, fact["bytes"], fact["unknown"], Overlap(**overlap) if overlap else None)


def _mapped(path: Path, dtype: Any) -> np.ndarray:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")


# -- sentences ---------------------------------------------------------------------------------------------------------


def encode_sentences(data: DataSpec, tokenizer: Tokenizer) -> EncodedSentences:
    """Return the tokens of labelled texts, from the cache or computed now."""
    folder = _folder("sentences", data, tokenizer)
    if not folder.is_dir():
        _store(folder, lambda new: _encode_sentences(data, tokenizer, new))
    facts = _read_facts(folder)
    sets = {}
    for name, fact in facts["sets"].items():
        with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
            items = Encoded(arrays["tokens"], arrays["offsets"], arrays["labels"])
        overlap = fact.get("overlap")
        sets[name] = SentenceSet(items, fact["unknown"], Overlap(**overlap) if overlap else None)
    train = sets.pop("train")
    vocabulary = tokenizer.restore(facts["vocabulary"])
    return EncodedSentences(
        vocabulary, tuple(facts["labels"]), tuple(facts["says"]), train, sets, tuple(facts["tests"])
    )


def _encode_sentences(data: DataSpec, tokenizer: Tokenizer, folder: Path) -> None:
    found = data.sentences()
    labels = sorted(set(found.train.labels), key=lambda y: (not y.isdigit(), int(y) if y.isdigit() else 0, y))
    if len(labels) < 2:
        raise InputError(
            f"the training data have only one class, '{labels[0] if labels else 'none'}': a classifier needs two"
        )
    vocabulary = tokenizer.learn(itertools.chain(found.train.texts, _pieces(found.words)))
    facts: dict[str, Any] = {
        "vocabulary": vocabulary.state(),
        "labels": labels,
        "says": [found.says.get(y, y) for y in labels],
        "tests": ["test"] if found.test else [],
        "sets": {},
    }
    for name, items in {"train": found.train, "validation": found.validation, "test": found.test}.items():
        if items is None:
            continue
        if not len(items):
            raise InputError(f"the {name} set is empty: give more data, or set data.{name}=0")
        facts["sets"][name] = _write_items(items, labels, vocabulary, name, folder / f"{name}.npz")
        if name != "train":
            facts["sets"][name]["overlap"] = asdict(overlap_of_items(found.train, items))
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


def _write_items(items: Items, labels: list[str], vocabulary: Vocabulary, name: str, path: Path) -> dict[str, Any]:
    number = {label: n for n, label in enumerate(labels)}
    unseen = sorted(set(items.labels) - number.keys())
    if unseen:
        raise InputError(
            f"the {name} set has the label '{unseen[0]}', which is not in the training data: "
            "give more texts of that class, or name the column of the labels with --label"
        )
    arrays = [ids for group in _groups(items.texts, 1000) for ids in vocabulary.encode(group)]
    tokens = np.concatenate([np.empty(0, vocabulary.dtype), *arrays])
    if not len(tokens):
        raise InputError(f"the {name} set has no tokens: check the text column")
    offsets = np.concatenate([[0], np.cumsum([len(a) for a in arrays])])
    np.savez(path, tokens=tokens, offsets=offsets, labels=np.array([number[y] for y in items.labels]))
    return {"unknown": float((tokens == vocabulary.unknown).mean())}


# -- stored folders ----------------------------------------------------------------------------------------------------


def _folder(kind: str, data: DataSpec, tokenizer: Tokenizer) -> Path:
    if not data.corpus.content:
        data = data.set("corpus", data.corpus.resolved("lm" if kind == "texts" else "classifier"))
    if getattr(tokenizer, "content", None) == "":  # the tokenizer of a checkpoint, outside a run
        tokenizer = tokenizer.resolved()
    depends_on = [FORMAT, kind, data.id, tokenizer.id, version("tokenizers")]
    return cache_folder() / "tokens" / hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:24]


def _store(folder: Path, write: Callable[[Path], None]) -> None:
    make_folder(folder, write)
    # The tokenizer's Rust code has freed hundreds of megabytes, which glibc keeps for the process unless told.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _read_facts(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{folder} is corrupt: delete it and run the command again") from None
