"""Recall: the answer stands in the context beside a key, or at the end of a chain of keys.

Shapes: N examples, T symbols, P pairs or facts.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from headtohead.data.synthetic.synthetic import NO_ANSWER, Examples, Synthetic, different, named, sizes
from headtohead.errors import InputError
from headtohead.spec import knob


class Mqar(Synthetic):
    """Multi-query associative recall: pairs of key and value, then each key again at a random place; the answer is its
    value."""

    equation: ClassVar[str] = "k1 v1 … kP vP . ki . . kj …:  the answer at ki is vi"
    reference: ClassVar[str] = "Arora et al. 2023, Zoology"
    separates: ClassVar[str] = (
        "how much a model recalls: full attention solves it at any number of pairs, a state of fixed size only up to "
        "its capacity, a local window only within its reach"
    )

    pairs: int = knob(default=8, ge=1, help="P, pairs of key and value")
    least_pairs: int | None = knob(
        default=None, ge=1, help="an example has from so many to `pairs`; none: always `pairs`"
    )
    test_pairs: tuple[int, ...] = knob(default=(), help="further test sets with these numbers of pairs")
    questions: int | None = knob(default=None, ge=1, help="Q, questions for keys drawn at random; none: each key once")
    length: int = knob(default=32, ge=3, help="T, symbols of an example")
    keys: int = knob(default=64, ge=1, help="different keys")
    values: int = knob(default=64, ge=2, help="different values")

    def check(self) -> None:
        needed = 2 * self.pairs + (self.questions or self.pairs)
        if needed > self.length:
            raise InputError(
                f"{self.pairs} pairs and their questions need {needed} symbols, and length is {self.length}: "
                "make length larger"
            )
        if self.pairs > min(self.keys, self.values):
            raise InputError(f"{self.pairs} pairs need as many different keys and values: make keys and values larger")
        if (self.least_pairs or 1) > self.pairs:
            raise InputError(f"least_pairs={self.least_pairs} is larger than pairs={self.pairs}: make it smaller")

    @property
    def symbols(self) -> tuple[str, ...]:
        return (".", *named("k", self.keys), *named("v", self.values))

    @property
    def choices(self) -> int:
        return self.values

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        found, P, Q = Examples.blank(count, self.length), self.pairs, self.questions or self.pairs
        keys = 1 + different(rng, count, self.keys, P)  # (N, P)
        values = 1 + self.keys + different(rng, count, self.values, P)
        pairs = sizes(rng, count, self.least_pairs, P)  # (N, 1), how many of them the example has
        has = np.arange(P) < pairs
        found.ids[:, 0 : 2 * P : 2], found.ids[:, 1 : 2 * P : 2] = np.where(has, keys, 0), np.where(has, values, 0)
        places = 2 * P + different(rng, count, self.length - 2 * P, Q)  # (N, Q)
        if self.questions is None:
            pair = np.broadcast_to(np.arange(P), (count, P))
        else:
            pair = rng.integers(0, pairs, (count, Q))
        is_asked = pair < pairs
        key, value = (np.take_along_axis(x, pair, axis=1) for x in (keys, values))
        np.put_along_axis(found.ids, places, np.where(is_asked, key, 0), axis=1)
        np.put_along_axis(found.answers, places, np.where(is_asked, value, NO_ANSWER), axis=1)
        return found


class InContextRecall(Synthetic):
    """Pairs of key and value in random order, with repetitions; the answer at a repeated key is its value."""

    equation: ClassVar[str] = "k3 v7 k1 v2 k3 …:  the answer at the second k3 is v7"
    reference: ClassVar[str] = "Poli et al. 2024, Mechanistic Design (MAD): in-context recall, noisy with noise > 0"
    separates: ClassVar[str] = (
        "whether a mixer finds a key by its content: attention with two layers, or with one layer behind a short "
        "convolution, does; a fixed convolution does not"
    )

    length: int = knob(default=64, ge=4, help="T, symbols of an example")
    test_length: tuple[int, ...] = knob(default=(128,), help="further test sets with these lengths")
    keys: int = knob(default=16, ge=1, help="different keys")
    values: int = knob(default=16, ge=2, help="different values")
    noise: float = knob(default=0.0, ge=0, lt=1, help="share of symbols between pairs that mean nothing")

    NOISES: ClassVar[int] = 16  # different symbols of noise

    def check(self) -> None:
        if self.length % 2 and not self.noise:
            raise InputError(f"pairs fill an even number of symbols, and length is {self.length}: add or take one")

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("k", self.keys), *named("v", self.values), *named("n", self.NOISES if self.noise else 0))

    @property
    def choices(self) -> int:
        return self.values

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        pairs = max(2, int((1 - self.noise) * self.length / 2))
        noises = self.length - 2 * pairs
        value_of = self.keys + rng.integers(0, self.values, (count, self.keys))  # (N, keys)
        is_noise = different(rng, count, pairs + noises, pairs + noises) >= pairs  # (N, items)
        start = np.cumsum(2 - is_noise, axis=1) - (2 - is_noise)
        key = rng.integers(0, self.keys, is_noise.shape)
        noise = self.keys + self.values + rng.integers(0, self.NOISES, is_noise.shape)
        value = np.take_along_axis(value_of, key, axis=1)
        found = Examples.blank(count, 2 * pairs + noises)
        np.put_along_axis(found.ids, start, np.where(is_noise, noise, key), axis=1)
        row, item = np.nonzero(~is_noise)
        found.ids[row, start[row, item] + 1] = value[row, item]
        known = np.zeros((count, self.keys), bool)
        for n in range(is_noise.shape[1]):
            rows = np.flatnonzero(~is_noise[:, n])
            asked = rows[known[rows, key[rows, n]]]
            found.answers[asked, start[asked, n]] = value[asked, n]
            known[rows, key[rows, n]] = True
        return found


class FuzzyRecall(Synthetic):
    """Keys and values of one to several symbols, in random order with repetitions; the answer after a repeated key is
    its value, symbol by symbol. Marks show where keys and values end, so that every answer is certain."""

    equation: ClassVar[str] = "a b : x ; a : y z ; a b : …:  the answer at the second ':' after a b is x"
    reference: ClassVar[str] = "Poli et al. 2024, Mechanistic Design (MAD): fuzzy in-context recall"
    separates: ClassVar[str] = (
        "whether a model joins neighbouring symbols before it looks them up: short convolutions and more layers help"
    )

    length: int = knob(default=64, ge=16, help="T, symbols of an example")
    keys: int = knob(default=6, ge=1, help="different keys of an example")
    widest: int = knob(default=2, ge=1, le=3, help="most symbols of a key and of a value")
    vocab: int = knob(default=8, ge=2, help="symbols that keys are made of, and as many for values")

    def check(self) -> None:
        if self.keys > self.vocab:
            raise InputError(f"{self.keys} keys need a vocab of as many symbols: make vocab larger")

    @property
    def symbols(self) -> tuple[str, ...]:
        return (":", ";", *named("k", self.vocab), *named("v", self.vocab))

    @property
    def choices(self) -> int:
        return self.vocab

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        W, widest = self.widest, 2 * self.widest + 2
        keys, key_width = self._keys(rng, count)  # (N, keys, W), (N, keys, 1)
        values = 2 + self.vocab + rng.integers(0, self.vocab, (count, self.keys, W))
        value_width = rng.integers(1, W + 1, key_width.shape)
        width = key_width + value_width + 2  # of a pair with its two marks
        o = np.arange(widest)  # place inside a pair
        pair = np.where(o < key_width, _spread(keys, widest, 0), 0)  # (N, keys, widest)
        value = np.take_along_axis(values, np.clip(o - key_width - 1, 0, W - 1), axis=2)
        pair = np.where((o > key_width) & (o < width - 1), value, pair)
        pair = np.where(o == width - 1, END, pair)
        answer = np.where((o >= key_width) & (o < width - 2), _spread(pair[:, :, 1:], widest, END), NO_ANSWER)

        items = -(-self.length // 4)  # no pair is shorter than four symbols
        which = rng.integers(0, self.keys, (count, items))
        rows = np.arange(count)[:, None]
        own = width[rows, which, 0]
        at = (np.cumsum(own, axis=1) - own)[:, :, None] + o  # (N, items, widest)
        inside = (o < own[:, :, None]) & (at < self.length)
        earlier = np.tril(np.ones((items, items), bool), -1)
        known = ((which[:, :, None] == which[:, None, :]) & earlier).any(axis=2)
        found = Examples.blank(count, self.length)
        row = np.broadcast_to(rows[:, :, None], at.shape)[inside]
        found.ids[row, at[inside]] = pair[rows, which][inside]
        found.answers[row, at[inside]] = np.where(known[:, :, None], answer[rows, which], NO_ANSWER)[inside]
        return found

    def _keys(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw keys of which no two in an example are equal: their symbols (N, keys, W), and their widths."""
        width = rng.integers(1, self.widest + 1, (count, self.keys, 1))
        number = np.zeros((count, self.keys), np.int64)
        for w in range(1, self.widest + 1):
            of_this_width = different(rng, count, self.vocab**w, self.keys)
            number = np.where(width[:, :, 0] == w, of_this_width, number)
        return 2 + number[:, :, None] // self.vocab ** np.arange(self.widest) % self.vocab, width


MARK, END = 0, 1  # between key and value, and after a value


def _spread(x: np.ndarray, width: int, fill: int) -> np.ndarray:
    """Widen the last axis to `width`."""
    return np.pad(x, ((0, 0), (0, 0), (0, width - x.shape[2])), constant_values=fill)


class MultiHop(Synthetic):
    """Facts a b, which form one circle, in random order; then questions. The answer at ? a is what `hops` steps lead
    to."""

    equation: ClassVar[str] = "a b … b c … ? a:  the answer is c for two hops"
    reference: ClassVar[str] = "Sanford et al. 2024, Transformers, parallel computation, and logarithmic depth"
    separates: ClassVar[str] = "depth: each hop needs another lookup, and layers do them one after another"

    facts: int = knob(default=8, ge=2, help="P, facts of an example")
    hops: int = knob(default=2, ge=1, help="facts from the question to the answer")
    questions: int = knob(default=4, ge=1, help="different questions of an example")
    vocab: int = knob(default=16, ge=2, help="different symbols in facts")

    def check(self) -> None:
        if self.hops >= self.facts:
            raise InputError(f"{self.hops} hops go round a circle of {self.facts} facts: give more facts")
        if self.questions > self.facts or self.facts > self.vocab:
            raise InputError(
                f"questions ({self.questions}) ≤ facts ({self.facts}) ≤ vocab ({self.vocab}) must hold: "
                "make vocab larger"
            )

    @property
    def symbols(self) -> tuple[str, ...]:
        return ("?", *named("a", self.vocab))

    @property
    def choices(self) -> int:
        return self.vocab

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        P, Q = self.facts, self.questions
        found = Examples.blank(count, 2 * P + 2 * Q)
        circle = 1 + different(rng, count, self.vocab, P)  # (N, P)
        fact, asked = different(rng, count, P, P), different(rng, count, P, Q)

        def at(place: np.ndarray) -> np.ndarray:
            return np.take_along_axis(circle, place % P, axis=1)

        found.ids[:, 0 : 2 * P : 2], found.ids[:, 1 : 2 * P : 2] = at(fact), at(fact + 1)
        found.ids[:, 2 * P + 1 :: 2] = at(asked)
        found.answers[:, 2 * P + 1 :: 2] = at(asked + self.hops)
        return found
