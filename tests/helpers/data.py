"""Corpora, tables and vocabularies for the tests of data/."""

from __future__ import annotations

import dataclasses
import functools
import os
from pathlib import Path

import pytest

from headtohead.data.corpora import Corpus, Items, Text
from headtohead.data.splits import DataSpec
from headtohead.data.tokenizers import Tokenizer, Vocabulary

SHARED = Path(os.environ.get("HEADTOHEAD_DATA", "no such folder"))
LINES = "".join(f"Line {n} of the text.\n" for n in range(400))
MIXED = (
    "We don't know what the U.S. will do: 1,000.5 long-term plans, it's said -- and they've said it ... \n\n"
    "Naïve café owners can't agree.  Two spaces,\ttabs and (brackets) here.\r\nThe end of the beginning.\n"
) * 5


def needs(name: str) -> pytest.MarkDecorator:
    """Skip the test where the user's data has no such folder."""
    return pytest.mark.skipif(not (SHARED / name).is_dir(), reason=f"HEADTOHEAD_DATA has no folder {name}")


def whole(text: Text | None) -> str:
    return "" if text is None else "".join(text.pieces())


def rows_of(items: Items) -> list[tuple[str, str]]:
    return list(zip(items.texts, items.labels, strict=True))


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def tsv(start: int, stop: int) -> str:
    return "text\tlabel\n" + "".join(f"Text number {n}\t{n % 2}\n" for n in range(start, stop))


def resolved(corpus: Corpus) -> DataSpec:
    return DataSpec(corpus=dataclasses.replace(corpus, content=corpus.fingerprint()))


def overlap_by_sets(train: list[int], held: list[int], run: int) -> float:
    """The share of runs of `held` that are in `train`, by the definition."""
    seen = {tuple(train[a : a + run]) for a in range(len(train) - run + 1)}
    runs = [tuple(held[a : a + run]) for a in range(len(held) - run + 1)]
    return sum(r in seen for r in runs) / max(1, len(runs))


@functools.cache
def learned(spec: Tokenizer) -> Vocabulary:
    return spec.learn(iter([MIXED]))


def ids_of(spec: Tokenizer, text: str) -> list[int]:
    return learned(spec).encode([text])[0].tolist()
