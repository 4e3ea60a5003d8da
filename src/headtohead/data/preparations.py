"""Preparations: what is done to a corpus's text before anything else sees it. Named, so that a run says so."""

from __future__ import annotations

import abc
import io
import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from headtohead.spec import Part


class Preparation(Part, family="preparation", of="data"):
    """What is done to the text first."""

    @abc.abstractmethod
    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        """The pieces of a text, changed; they are cut at line ends."""


class AsIs(Preparation):
    """Nothing: the text as it is."""

    equation: ClassVar[str] = "text"
    reference: ClassVar[str] = "the absence of one"

    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        return iter(pieces)


class Lowercase(Preparation):
    """Capitals are folded."""

    equation: ClassVar[str] = "lower(text)"
    reference: ClassVar[str] = "common practice"

    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        return (piece.lower() for piece in pieces)


class Plays(Preparation):
    """Speech alone: blank lines and the speaker's line after each are dropped; WORDS in capitals are Capitalised."""

    equation: ClassVar[str] = "drop '' and the line that follows it; the first line is a speaker's too"
    reference: ClassVar[str] = "the Tiny Shakespeare document"

    def prepare(self, pieces: Iterable[str]) -> Iterator[str]:
        after_blank = True  # a play opens with a speaker
        for piece in pieces:
            kept = []
            for line in io.StringIO(piece, newline=""):
                blank = not line.strip()
                if not blank and not after_blank:
                    kept.append(line)
                after_blank = blank
            yield re.sub(r"\b[A-Z]{2,}\b", lambda m: m[0].capitalize(), "".join(kept))
