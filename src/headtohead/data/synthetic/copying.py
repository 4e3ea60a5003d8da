"""Copying: the answer is the context itself, the whole of it or what is asked for.

Shapes: N examples, T symbols.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from headtohead.data.synthetic.synthetic import NO_ANSWER, Examples, Synthetic, different, named, sizes
from headtohead.errors import InputError
from headtohead.spec import knob


class Induction(Synthetic):
    """Random symbols; the answer at a symbol that occurred before is what followed it the last time."""

    equation: ClassVar[str] = "… a b … a:  the answer at the second a is b"
    reference: ClassVar[str] = "Olsson et al. 2022, In-context Learning and Induction Heads"
    separates: ClassVar[str] = (
        "one layer of attention from two: a head must know what stands before each key, which takes an earlier layer "
        "or a short convolution"
    )

    length: int = knob(default=32, ge=3, help="T, symbols of an example")
    test_length: tuple[int, ...] = knob(default=(64,), help="further test sets with these lengths")
    vocab: int = knob(default=16, ge=2, help="different symbols")

    @property
    def symbols(self) -> tuple[str, ...]:
        return named("a", self.vocab)

    @property
    def choices(self) -> int:
        return self.vocab

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        ids, rows = rng.integers(0, self.vocab, (count, self.length)), np.arange(count)
        answers = np.full_like(ids, NO_ANSWER)
        last = np.full((count, self.vocab), -1)  # where each symbol was last
        for t, symbol in enumerate(ids.T):
            before = last[rows, symbol]
            answers[:, t] = np.where(before >= 0, ids[rows, before + 1], NO_ANSWER)
            last[rows, symbol] = t
        return Examples(ids, answers)


class Copying(Synthetic):
    """Random symbols, a mark, then the same symbols again."""

    equation: ClassVar[str] = "x1 … xn > x1 … xn:  the answers after the mark are x1 … xn"
    reference: ClassVar[str] = "Jelassi et al. 2024, Repeat After Me; Graves et al. 2014 for the task"
    separates: ClassVar[str] = (
        "attention from states of fixed size, which forget long contexts; and positions that work beyond the training "
        "length from those that do not"
    )

    length: int = knob(default=16, ge=1, help="n, most symbols to copy; an example has 2n symbols")
    least_length: int | None = knob(
        default=1, ge=1, help="an example copies from so many to `length`; none: always `length`"
    )
    test_length: tuple[int, ...] = knob(default=(32,), help="further test sets that copy so many symbols")
    vocab: int = knob(default=16, ge=2, help="different symbols")

    def check(self) -> None:
        if (self.least_length or 1) > self.length:
            raise InputError(f"least_length={self.least_length} is larger than length={self.length}: make it smaller")

    @property
    def symbols(self) -> tuple[str, ...]:
        return (".", ">", *named("a", self.vocab))

    @property
    def choices(self) -> int:
        return self.vocab

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        n = sizes(rng, count, self.least_length, self.length)  # (N, 1)
        x = 2 + rng.integers(0, self.vocab, (count, self.length))
        t = np.arange(2 * self.length)

        def copied(place: np.ndarray) -> np.ndarray:
            return np.take_along_axis(x, np.clip(place, 0, self.length - 1), axis=1)

        first, second = t < n, (t > n) & (t < 2 * n)
        ids = np.where(first, copied(t + 0 * n), np.where(second, copied(t - n - 1), 0))
        ids[t == n] = 1
        return Examples(ids, np.where((t >= n) & (t < 2 * n), copied(t - n), NO_ANSWER))


class SelectiveCopying(Synthetic):
    """Symbols at random places among blanks; after them, each mark asks for the next symbol."""

    equation: ClassVar[str] = ". x1 . . x2 … xn . > > … >:  the answer at the i-th mark is xi"
    reference: ClassVar[str] = "Gu and Dao 2023, Mamba"
    separates: ClassVar[str] = "mixers that choose what they keep from fixed convolutions and decays, which cannot"

    marked: int = knob(default=8, ge=1, help="n, symbols to copy")
    length: int = knob(default=32, ge=1, help="symbols and blanks before the first mark")
    vocab: int = knob(default=8, ge=2, help="different symbols")

    def check(self) -> None:
        if self.marked > self.length:
            raise InputError(f"{self.marked} symbols do not fit into length={self.length}: make length larger")

    @property
    def symbols(self) -> tuple[str, ...]:
        return (".", ">", *named("a", self.vocab))

    @property
    def choices(self) -> int:
        return self.vocab

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        found = Examples.blank(count, self.length + self.marked)
        x = 2 + rng.integers(0, self.vocab, (count, self.marked))
        places = np.sort(different(rng, count, self.length, self.marked), axis=1)
        np.put_along_axis(found.ids, places, x, axis=1)
        found.ids[:, self.length :] = 1
        found.answers[:, self.length :] = x
        return found


class Compression(Synthetic):
    """Random symbols, a mark, then the number of each place in random order; the answer is the symbol at that place."""

    equation: ClassVar[str] = "x1 … xn | @i @j …:  the answer at @i is xi"
    reference: ClassVar[str] = "Poli et al. 2024, Mechanistic Design (MAD): compression, for a decoder"
    separates: ClassVar[str] = (
        "how much one vector holds, with a pattern that lets the questions see the mark alone; how much a state holds, "
        "without it"
    )

    length: int = knob(default=8, ge=1, help="n, symbols before the mark")
    vocab: int = knob(default=16, ge=2, help="different symbols")

    @property
    def symbols(self) -> tuple[str, ...]:
        return ("|", *named("a", self.vocab), *named("@", self.length))

    @property
    def choices(self) -> int:
        return self.vocab

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        n = self.length
        found = Examples.blank(count, 2 * n + 1)
        x = 1 + rng.integers(0, self.vocab, (count, n))
        places = different(rng, count, n, n)
        found.ids[:, :n], found.ids[:, n + 1 :] = x, 1 + self.vocab + places
        found.answers[:, n + 1 :] = np.take_along_axis(x, places, axis=1)
        return found
