"""States: every symbol changes a state, and the answer is the state.

Shapes: N examples, T symbols.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from headtohead.data.synthetic.groups import group
from headtohead.data.synthetic.synthetic import NO_ANSWER, Examples, Synthetic, named
from headtohead.spec import knob


class Parity(Synthetic):
    """Random bits; the answer at each bit is the parity of the bits so far."""

    equation: ClassVar[str] = "answer_t = (x1 + … + xt) mod 2"
    reference: ClassVar[str] = (
        "Hahn 2020, Theoretical Limitations of Self-Attention; Grazzi et al. 2024 for recurrent models"
    )
    separates: ClassVar[str] = (
        "recurrent models that can flip a state from attention and from states that only decay, which fail beyond the "
        "training length"
    )

    length: int = knob(default=16, ge=1, help="T, bits of an example")
    test_length: tuple[int, ...] = knob(default=(32,), help="further test sets with these lengths")
    each: bool = knob(default=True, help="ask at each bit; false: only at the last one, which is much harder to learn")

    choices = 2

    @property
    def symbols(self) -> tuple[str, ...]:
        return ("0", "1")

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        ids = rng.integers(0, 2, (count, self.length))
        answers = ids.cumsum(axis=1) % 2
        if not self.each:
            answers[:, :-1] = NO_ANSWER
        return Examples(ids, answers)


class ModularAddition(Synthetic):
    """A sum of numbers modulo p. Half of all sums are held out, so that a table learned by heart does not help."""

    equation: ClassVar[str] = "a b =:  the answer is (a + b) mod p"
    reference: ClassVar[str] = "Power et al. 2022, Grokking"
    separates: ClassVar[str] = "learning a rule from learning by heart; weight decay and long training help"

    held: float = knob(default=0.5, gt=0, lt=1, help="share of all possible examples that training never reads")
    modulus: int = knob(default=31, ge=2, help="p, different numbers")
    terms: int = knob(default=2, ge=2, help="numbers of a sum")

    @property
    def symbols(self) -> tuple[str, ...]:
        return ("=", *map(str, range(self.modulus)))

    @property
    def choices(self) -> int:
        return self.modulus

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        found = Examples.blank(count, self.terms + 1)
        x = rng.integers(0, self.modulus, (count, self.terms))
        found.ids[:, :-1] = 1 + x
        found.answers[:, -1] = 1 + x.sum(axis=1) % self.modulus
        return found


class StateTracking(Synthetic):
    """Random elements of a group; the answer at each is the product of all so far, the latest on the left."""

    equation: ClassVar[str] = "answer_t = x_t · … · x_2 · x_1"
    reference: ClassVar[str] = "Merrill et al. 2024, The Illusion of State in State-Space Models"
    separates: ClassVar[str] = (
        "S5 and A5: recurrent models with full transitions from attention and diagonal states, which need more layers "
        "the longer the text; Z60 is easier, A4xZ5 is between"
    )

    group: str = knob(default="S3", help="S5, A5, Z60, or a product such as A4xZ5; permutations are written as images")
    length: int = knob(default=16, ge=1, help="T, elements of an example")
    test_length: tuple[int, ...] = knob(default=(32,), help="further test sets with these lengths")

    def check(self) -> None:
        group(self.group)  # refuses unknown names

    @property
    def symbols(self) -> tuple[str, ...]:
        return group(self.group).names

    @property
    def choices(self) -> int:
        return len(self.symbols)

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        table = group(self.group).table
        ids = rng.integers(0, len(table), (count, self.length))
        answers, state = np.empty_like(ids), np.zeros(count, np.int64)  # the identity
        for t, x in enumerate(ids.T):
            state = answers[:, t] = table[x, state]
        return Examples(ids, answers)


class Brackets(Synthetic):
    """Nested brackets of several kinds; the answer after a closing bracket is the bracket that must close next."""

    equation: ClassVar[str] = "( [ { } ]:  the answer after ] is )"
    reference: ClassVar[str] = "Hewitt et al. 2020, RNNs can generate bounded hierarchical languages"
    separates: ClassVar[str] = (
        "models that count depth, and find the opening bracket of this depth, from those that do not"
    )

    length: int = knob(default=32, ge=3, help="T, brackets of an example")
    test_length: tuple[int, ...] = knob(default=(64,), help="further test sets with these lengths")
    depth: int = knob(default=4, ge=2, help="most brackets that are open at a time")
    test_depth: tuple[int, ...] = knob(default=(), help="further test sets with these depths")
    kinds: int = knob(default=4, ge=2, help="kinds of brackets")

    @property
    def symbols(self) -> tuple[str, ...]:
        return (*named("(", self.kinds), *(f"{n})" for n in range(self.kinds)))

    @property
    def choices(self) -> int:
        return self.kinds

    def draw(self, rng: np.random.Generator, count: int) -> Examples:
        rows, kinds = np.arange(count), rng.integers(0, self.kinds, (count, self.length))
        found = Examples.blank(count, self.length)
        opens = rng.random((count, self.length)) < 0.5
        opens[:, :3] = True, True, False  # so that every example has a question
        open_kinds, depth = np.zeros((count, self.depth + 1), np.int64), np.zeros(count, np.int64)
        for t in range(self.length):
            up = (opens[:, t] | (depth == 0)) & (depth < self.depth)
            closed = open_kinds[rows, depth]  # the innermost open bracket
            depth = depth + np.where(up, 1, -1)
            open_kinds[rows, depth] = np.where(up, kinds[:, t], open_kinds[rows, depth])
            found.ids[:, t] = np.where(up, kinds[:, t], self.kinds + closed)
            found.answers[:, t] = np.where(~up & (depth > 0), self.kinds + open_kinds[rows, depth], NO_ANSWER)
        return found
