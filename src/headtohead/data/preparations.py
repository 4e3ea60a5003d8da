"""Preparations: changes of the text before it is split and tokenized. A preparation is part of a run's settings."""

from __future__ import annotations

import abc
import io
import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from headtohead.spec import Part


class Preparation(Part, family="preparation", of="data"):
    """How the text is changed before it is split and tokenized."""

    @abc.abstractmethod
    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yield the changed pieces of a text. Pieces end at line ends."""


class AsIs(Preparation):
    """The text unchanged."""

    equation: ClassVar[str] = "text"
    reference: ClassVar[str] = "no preparation"

    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        return iter(pieces)


class Lowercase(Preparation):
    """The text in lower case."""

    equation: ClassVar[str] = "lower(text)"
    reference: ClassVar[str] = "common practice"

    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        return (piece.lower() for piece in pieces)


class Plays(Preparation):
    """Only speech: drops each blank line and the speaker's name after it; WORDS in capitals become Capitalised."""

    equation: ClassVar[str] = "drop each empty line and the line after it, and the first line"
    reference: ClassVar[str] = "the Tiny Shakespeare document"

    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        after_blank = True  # a play begins with a speaker's name
        for piece in pieces:
            kept = []
            for line in io.StringIO(piece, newline=""):
                blank = not line.strip()
                if not blank and not after_blank:
                    kept.append(line)
                after_blank = blank
            yield re.sub(r"\b[A-Z]{2,}\b", lambda m: m[0].capitalize(), "".join(kept))
