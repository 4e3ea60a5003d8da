"""Splits into training, validation and test sets, for corpora that do not have them.

Running text is split in order, labelled texts by the hash of their content. The windows of two sets never overlap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from headtohead.data.corpora import Corpus, Items, Sentences, Sotu, Text, Texts
from headtohead.data.preparations import AsIs, Lowercase, Preparation
from headtohead.data.synthetic import Synthetic
from headtohead.errors import InputError
from headtohead.spec import Spec, knob


class DataSpec(Spec):
    """The data of a run."""

    corpus: Corpus = knob(default=Sotu(), help="source of the text")
    prepare: Preparation = knob(default=AsIs(), help="how the text is changed first")
    validation: float = knob(
        default=0.1, ge=0, lt=1, help="share taken for validation if the corpus has no validation set"
    )
    test: float = knob(default=0.1, ge=0, lt=1, help="share taken for testing if the corpus has no test set")
    limit: int | None = knob(default=None, ge=1, help="number of labelled texts to train on; none: all")

    def check(self) -> None:
        if self.validation + self.test >= 1:
            raise InputError(
                f"validation {self.validation} and test {self.test} leave nothing to train on: make one smaller"
            )

    def texts(self) -> Texts:
        """Return the prepared running text, split in the order train, validation, test."""
        if self.limit is not None:
            raise InputError("data.limit counts labelled texts: for running text give a shorter file")
        found = self.corpus.texts()
        whole = self._prepared(found.train)
        tests = {name: self._prepared(text) for name, text in found.tests.items()}
        held = 0.0 if tests else self.test
        carve = self.validation if found.validation is None else 0.0
        train, validation, test = in_order(whole, carve, held) if carve or held else (whole, None, None)
        if found.validation is not None:
            validation = self._prepared(found.validation)
        words = found.words and self._prepared(found.words)
        return Texts(train, validation, tests or ({"test": test} if test else {}), words)

    def sentences(self) -> Sentences:
        """Return the prepared labelled texts, split by content."""
        found = self.corpus.sentences()
        found = replace(
            found,
            train=self._prepared_items(found.train),
            validation=found.validation and self._prepared_items(found.validation),
            test=found.test and self._prepared_items(found.test),
            words=found.words and self._prepared(found.words),
        )
        left = 1.0
        if found.test is None and self.test:
            train, test = by_content(found.train, self.test, "test")
            found = replace(found, train=train, test=test)
            left -= self.test
        if found.validation is None and self.validation:
            train, validation = by_content(found.train, self.validation / left, "validation")
            found = replace(found, train=train, validation=validation)
        return found if self.limit is None else replace(found, train=some_by_content(found.train, self.limit))

    def examples(self) -> Synthetic:
        """Return the corpus of generated examples. Refuse settings that change nothing of it."""
        corpus, usual = self.corpus, DataSpec()
        assert isinstance(corpus, Synthetic)
        inert = [n for n in ("prepare", "validation", "test", "limit") if getattr(self, n) != getattr(usual, n)]
        inert = [f"data.{n}" for n in inert] + (["data.corpus.path"] if corpus.path else [])
        if inert:
            raise InputError(
                f"{corpus.name} generates its own sets: leave out {inert[0]}; the knobs of data.corpus set them"
            )
        return corpus

    def _prepared(self, text: Text) -> Text:
        piece_by_piece = isinstance(self.prepare, AsIs | Lowercase)
        return Text(lambda: self.prepare.prepare(text.pieces()), text.documents and piece_by_piece)

    def _prepared_items(self, items: Items) -> Items:
        return Items(["".join(self.prepare.prepare([t])) for t in items.texts], items.labels)


def in_order(text: Text, validation: float, test: float) -> tuple[Text, Text | None, Text | None]:
    """Split a text: first training, then validation, last test. It is cut after a line end if one is near."""
    lengths = [len(piece) for piece in text.pieces()]
    total = sum(lengths)
    first = _line_end(text, round(total * (1 - validation - test)))
    second = _line_end(text, round(total * (1 - test))) if test else total
    return (
        _between(text, 0, first),
        _between(text, first, second) if validation else None,
        _between(text, second, total) if test else None,
    )


def _between(text: Text, start: int, stop: int) -> Text:
    def pieces() -> Iterator[str]:
        at = 0
        for piece in text.pieces():
            if at >= stop:
                return
            part = piece[max(0, start - at) : max(0, stop - at)]
            if part:
                yield part
            at += len(piece)

    return Text(pieces)


def _line_end(text: Text, target: int, within: int = 10_000) -> int:
    ahead = "".join(_between(text, target, target + within).pieces())
    return target + ahead.find("\n") + 1  # find returns −1 if there is no line end


def by_content(items: Items, share: float, name: str) -> tuple[Items, Items]:
    """Split off a share by the hash of each text. Copies of a text stay together, and the order of the file does not
    matter."""
    limit = int(share * 2**64)
    is_carved = [_hash(f"{name}/{' '.join(t.split()).lower()}") < limit for t in items.texts]
    rest, carved = Items([], []), Items([], [])
    for text, label, carve in zip(items.texts, items.labels, is_carved, strict=True):
        into = carved if carve else rest
        into.texts.append(text)
        into.labels.append(label)
    return rest, carved


def some_by_content(items: Items, count: int) -> Items:
    """Choose `count` texts by their hashes; return them in the order of the file."""
    lowest = sorted(range(len(items.texts)), key=lambda n: (_hash(f"limit/{items.texts[n]}"), n))[:count]
    return Items([items.texts[n] for n in sorted(lowest)], [items.labels[n] for n in sorted(lowest)])


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")


# -- overlap between training and held-out text ------------------------------------------------------------------------


@dataclass(frozen=True)
class Overlap:
    """The share of a held-out set that is also in the training data."""

    share: float
    of: str  # what was counted
    sampled: bool = False


def copies(train: Items, held: Items) -> np.ndarray:
    """Return which held-out texts are also in the training set, ignoring case and white space."""
    seen = {" ".join(t.split()).lower() for t in train.texts}
    return np.array([" ".join(t.split()).lower() in seen for t in held.texts], dtype=bool)


def overlap_of_items(train: Items, held: Items) -> Overlap:
    return Overlap(float(copies(train, held).sum()) / max(1, len(held)), "texts")


def overlap_of_tokens(train: np.ndarray, held: np.ndarray, run: int = 12, most: int = 2_000_000) -> Overlap:
    """Return the share of the held-out runs of `run` tokens that are also in the training text.

    For long texts, only runs whose hash falls into a fixed share are compared. Both sides use the same share, so the
    estimate is unbiased.
    """
    keep_one_in = max(1, -(-max(len(train), len(held)) // most))
    ours = np.concatenate([np.empty(0, np.uint64), *_run_hashes(held, run, keep_one_in)])
    if not len(ours):
        return Overlap(0.0, f"runs of {run} tokens", keep_one_in > 1)
    distinct, counts = np.unique(ours, return_counts=True)
    seen = np.zeros(len(distinct), dtype=bool)
    for hashes in _run_hashes(train, run, keep_one_in):
        seen |= np.isin(distinct, hashes)
    return Overlap(float(counts[seen].sum() / counts.sum()), f"runs of {run} tokens", keep_one_in > 1)


def _run_hashes(tokens: np.ndarray, run: int, keep_one_in: int, chunk: int = 1 << 20) -> Iterator[np.ndarray]:
    """Yield the hashes of all runs of tokens in chunks, one in `keep_one_in` of them."""
    odd = np.uint64(0x9E3779B97F4A7C15)
    for start in range(0, len(tokens) - run + 1, chunk):
        part = np.asarray(tokens[start : start + chunk + run - 1], dtype=np.uint64)
        hashes = np.zeros(len(part) - run + 1, dtype=np.uint64)
        for offset in range(run):  # uint64 wraps around on purpose
            hashes = (hashes ^ (part[offset : offset + len(hashes)] + np.uint64(1))) * odd
            hashes ^= hashes >> np.uint64(29)
        yield hashes[hashes % np.uint64(keep_one_in) == 0] if keep_one_in > 1 else hashes
