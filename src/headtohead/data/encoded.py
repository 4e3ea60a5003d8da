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
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from headtohead.data.batches import Encoded
from headtohead.data.cache import cache_folder, cached_folder
from headtohead.data.corpora import Items, Sentences, Text
from headtohead.data.splits import DataSpec, Overlap, overlap_of_items, overlap_of_tokens
from headtohead.data.stored_json import DAMAGED, parsed, unreadable
from headtohead.data.synthetic import Examples, Level, Synthetic
from headtohead.data.tokenizers import Tokenizer, Vocabulary
from headtohead.disk.writing import open_new
from headtohead.errors import InputError

T = TypeVar("T")
FACTS = "facts.json"
FORMAT = 4  # version of the stored folders; increase it when their content changes


@dataclass(frozen=True)
class TextSet:
    """The tokens of one set of running text, and its size in bytes."""

    tokens: np.ndarray
    bytes: int
    unknown: float  # share of tokens that are not in the vocabulary
    overlap: Overlap | None = None  # with the training set
    documents: np.ndarray | None = None  # the first token of each document, where the corpus has documents


@dataclass(frozen=True)
class EncodedTexts:
    """A tokenized corpus of running text."""

    vocabulary: Vocabulary
    train: TextSet
    held: dict[str, TextSet]  # validation, then each test set by name
    tests: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        sets = {"train": self.train, **self.held}
        return {"sets": {n: {"tokens": len(s.tokens), **_shares(s), "bytes": s.bytes} for n, s in sets.items()}}


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
        sets = {}
        for name, s in {"train": self.train, **self.held}.items():
            counts = np.bincount(s.items.labels, minlength=len(self.labels)).tolist()
            tokens, classes = len(s.items.tokens), dict(zip(self.says, counts, strict=True))
            sets[name] = {"texts": len(s.items), **_shares(s), "tokens": tokens, "classes": classes}
        return {"labels": list(self.labels), "says": list(self.says), "sets": sets}


def _shares(s: TextSet | SentenceSet) -> dict[str, Any]:
    return {"unknown": s.unknown, "overlap": s.overlap and asdict(s.overlap)}


# -- running text ------------------------------------------------------------------------------------------------------


def encode_texts(data: DataSpec, tokenizer: Tokenizer) -> EncodedTexts:
    """Return the tokens of running text, from the cache or computed now."""
    folder, facts = _stored("texts", data, tokenizer, _encode_texts)
    with _reading(folder):
        sets = {}
        for name, fact in facts["sets"].items():
            tokens = _mapped(folder / f"{name}.bin", np.dtype(fact["dtype"]))
            documents = None if fact["documents"] is None else np.array(fact["documents"], dtype=np.int64)
            sets[name] = TextSet(tokens, fact["bytes"], fact["unknown"], _overlap(fact), documents)
        train = sets.pop("train")
        return EncodedTexts(tokenizer.restore(facts["vocabulary"]), train, sets, tuple(facts["tests"]))


def _overlap(fact: dict[str, Any]) -> Overlap | None:
    return Overlap(**fact["overlap"]) if fact.get("overlap") else None


def _encode_texts(data: DataSpec, tokenizer: Tokenizer, folder: Path) -> None:
    texts = data.texts()
    vocabulary = tokenizer.learn(itertools.chain(texts.train.pieces(), texts.words.pieces() if texts.words else ()))
    sets = {"train": texts.train} | ({"validation": texts.validation} if texts.validation else {})
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
    _write_facts(folder, facts)


def _write_tokens(text: Text, vocabulary: Vocabulary, path: Path) -> dict[str, Any]:
    count = bytes_ = unknown = 0
    documents = []
    parts = ((part, n == 0) for piece in text.pieces() for n, part in enumerate(_cut([piece], 1 << 14)))
    with open_new(path) as file:
        for group in _groups(parts, 64):  # a megabyte at a time, encoded in parallel
            encoded = vocabulary.encode_running([piece for piece, _ in group])
            for (piece, is_first), ids in zip(group, encoded, strict=True):
                if is_first:
                    documents.append(count)
                ids.tofile(file)
                count += len(ids)
                unknown += int((ids == vocabulary.unknown).sum())
                bytes_ += len(piece.encode("utf-8", "surrogatepass"))
    facts = {"bytes": bytes_, "tokens": count, "unknown": unknown / max(1, count), "dtype": vocabulary.dtype.__name__}
    return facts | {"documents": documents if text.documents else None}


def _cut(pieces: Iterable[str], size: int) -> Iterator[str]:
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


def _groups(pieces: Iterable[T], size: int) -> Iterator[list[T]]:
    pieces = iter(pieces)
    while group := list(itertools.islice(pieces, size)):
        yield group


def _mapped(path: Path, dtype: Any) -> np.ndarray:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype=dtype, mode="r")


# -- sentences ---------------------------------------------------------------------------------------------------------


def encode_sentences(data: DataSpec, tokenizer: Tokenizer) -> EncodedSentences:
    """Return the tokens of labelled texts, from the cache or computed now."""
    folder, facts = _stored("sentences", data, tokenizer, _encode_sentences)
    with _reading(folder):
        sets = {}
        for name, fact in facts["sets"].items():
            with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
                items = Encoded(arrays["tokens"], arrays["offsets"], arrays["labels"])
            sets[name] = SentenceSet(items, fact["unknown"], _overlap(fact))
        train = sets.pop("train")
        vocabulary, labels, says = tokenizer.restore(facts["vocabulary"]), tuple(facts["labels"]), tuple(facts["says"])
        return EncodedSentences(vocabulary, labels, says, train, sets, tuple(facts["tests"]))


def _encode_sentences(data: DataSpec, tokenizer: Tokenizer, folder: Path) -> None:
    found = data.sentences()
    labels = sorted(set(found.train.labels), key=lambda y: (not y.isdigit(), int(y) if y.isdigit() else 0, y))
    if len(labels) < 2:
        raise InputError(_why_one_class(found, labels))
    vocabulary = tokenizer.learn(itertools.chain(found.train.texts, found.words.pieces() if found.words else ()))
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
    _write_facts(folder, facts)


def _why_one_class(found: Sentences, labels: list[str]) -> str:
    """Why there are fewer than two classes to learn. Copies of a text are never in two sets."""
    sets = [items for items in (found.train, found.validation, found.test) if items is not None]
    seen: dict[str, str] = {}
    for text, label in ((text, label) for items in sets for text, label in zip(items.texts, items.labels, strict=True)):
        known = seen.setdefault(" ".join(text.split()).lower(), label)
        if known != label:
            shown = text if len(text) <= 40 else f"{text[:40]}…"
            return f"the labels contradict each other: '{shown}' is both {known} and {label}; correct the labels"
    classes = sorted(set(seen.values()))
    if len(classes) > 1:
        left = f"only '{labels[0]}'" if labels else "no class"
        return f"{left} is left for training, because the other texts are held out: give more texts, or set data.test=0"
    return f"the training data have only one class, '{classes[0] if classes else 'none'}': a classifier needs two"


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
    with open_new(path) as file:
        np.savez(file, tokens=tokens, offsets=offsets, labels=np.array([number[y] for y in items.labels]))
    return {"unknown": float((tokens == vocabulary.unknown).mean())}


# -- generated examples ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExampleSet:
    """One set of generated examples, in ids of the vocabulary."""

    examples: Examples
    optimum: Level  # the best possible result on this set
    unknown: float = 0.0
    overlap: Overlap | None = None

    def __len__(self) -> int:
        return len(self.examples)

    def facts(self) -> dict[str, Any]:
        asked = int(self.examples.asked.sum())
        facts = {"examples": len(self), "length": self.examples.ids.shape[1], "answers": asked}
        return facts | {"optimum": self.optimum._asdict()}


@dataclass(frozen=True)
class EncodedExamples:
    """A synthetic task in ids of a vocabulary. Nothing is stored: examples are made again from the task's seed."""

    vocabulary: Vocabulary
    corpus: Synthetic
    ids: np.ndarray  # of each symbol
    train: ExampleSet | None  # none: new examples in every step
    held: dict[str, ExampleSet]  # validation, then each test set by name
    tests: tuple[str, ...]

    def batch(self, count: int, seed: int, step: int) -> Examples:
        """Return new training examples."""
        return _in_ids(self.corpus.batch(count, seed, step), self.ids)

    def facts(self) -> dict[str, Any]:
        sets = {"train": {"examples": None} if self.train is None else self.train.facts()}
        return {"sets": sets | {n: s.facts() for n, s in self.held.items()}, "guess": self.corpus.guess._asdict()}


def encode_examples(data: DataSpec, tokenizer: Tokenizer) -> EncodedExamples:
    """Return the sets of a synthetic task in ids of its symbols."""
    corpus = data.examples()
    symbols = corpus.symbols
    vocabulary = tokenizer.learn(iter([" ".join(symbols)]))
    encoded = vocabulary.encode(list(symbols))
    ids = np.array([int(one[0]) if len(one) == 1 else vocabulary.unknown for one in encoded])
    if len(set(ids.tolist()) - {vocabulary.unknown}) < len(symbols):
        raise InputError(
            f"{corpus.name} has its own symbols, which {tokenizer} does not keep apart: set tokenizer=Symbols"
        )

    def made(examples: Examples) -> ExampleSet:
        return ExampleSet(_in_ids(examples, ids), corpus.optimum(examples))

    train, held = corpus.train(), {name: made(examples) for name, examples in corpus.sets().items()}
    tests = tuple(name for name in held if name != "validation")
    return EncodedExamples(vocabulary, corpus, ids, None if train is None else made(train), held, tests)


def _in_ids(examples: Examples, ids: np.ndarray) -> Examples:
    return Examples(ids[examples.ids], np.where(examples.asked, ids[examples.answers], examples.answers))


# -- stored folders ----------------------------------------------------------------------------------------------------


def _stored(
    kind: str, data: DataSpec, tokenizer: Tokenizer, write: Callable[[DataSpec, Tokenizer, Path], None]
) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a tokenized corpus, written now if it is not in the cache, and its facts."""
    if not data.corpus.content:
        data = data.set("corpus", data.corpus.resolved("lm" if kind == "texts" else "classifier"))
    if getattr(tokenizer, "content", None) == "":  # the tokenizer of a checkpoint, outside a run
        tokenizer = tokenizer.resolved()
    depends_on = [FORMAT, kind, data.id, tokenizer.id, version("tokenizers")]
    folder = cache_folder() / "tokens" / hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:24]
    cached_folder(folder, "the tokenized corpus", lambda new: _trimmed(data, tokenizer, new, write))
    with _reading(folder):
        return folder, parsed((folder / FACTS).read_bytes())


def _write_facts(folder: Path, facts: dict[str, Any]) -> None:
    with open_new(folder / FACTS) as file:
        file.write(json.dumps(facts).encode())


def _trimmed(
    data: DataSpec, tokenizer: Tokenizer, new: Path, write: Callable[[DataSpec, Tokenizer, Path], None]
) -> None:
    """Tokenize, and free memory: the tokenizer's Rust code has freed hundreds of megabytes, which glibc keeps for the
    process unless told."""
    write(data, tokenizer, new)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def _reading(folder: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except PermissionError as error:
        raise unreadable(folder, "", error) from None
    except (OSError, EOFError, zipfile.BadZipFile, *DAMAGED):
        raise InputError(f"{folder} is corrupt: delete it and run the command again") from None
