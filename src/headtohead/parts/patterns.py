"""Attention patterns: which key j a query i may attend to. Functions of positions, combined with & and |.

    Causal() & Local(8)      the last 8 tokens, including the query itself
    Causal() | Prefix(4)     a prefix of 4 tokens that all tokens see, then left to right
    3 * Local(8) + Causal()  every fourth layer sees all earlier tokens (any family can differ from layer to layer)

A pattern has no module and no weights: the spec holds the equation. `allowed` works on integers, arrays and tensors.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

from headtohead.errors import InputError
from headtohead.spec import Part, knob


class Pattern(Part, family="pattern"):
    """Which keys a query may attend to. Patterns are combined with & and |.

    A pattern with a knob called `window` claims that a query sees exactly `window` positions on each side, including
    itself. The audit checks this claim.
    """

    @abc.abstractmethod
    def allowed(self, i: Any, j: Any) -> Any:
        """True where a query at position i may attend to a key at position j; elementwise, i and j broadcast."""

    def by_head(self, heads: int) -> tuple[Pattern, ...]:
        """Return the pattern of each head, or only this pattern if all heads have the same."""
        return (self,)

    def __and__(self, other: Pattern) -> Pattern:
        return And(self, other) if isinstance(other, Pattern) else NotImplemented

    def __or__(self, other: Pattern) -> Pattern:
        return Or(self, other) if isinstance(other, Pattern) else NotImplemented

    def is_causal(self, block: int) -> bool:
        """Whether no query in a text of `block` tokens sees a later key."""
        return not any(bool(self.allowed(i, j)) for i in range(block) for j in range(i + 1, block))


class Full(Pattern):
    """Every token sees every token."""

    equation: ClassVar[str] = "allowed(i, j) = true"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need"

    def allowed(self, i: Any, j: Any) -> Any:
        return (i >= 0) & (j >= 0)


class Causal(Pattern):
    """A token sees itself and all earlier tokens."""

    equation: ClassVar[str] = "allowed(i, j) = j ≤ i"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2.3"

    def allowed(self, i: Any, j: Any) -> Any:
        return j <= i


class Local(Pattern):
    """A token sees the tokens at a distance below `window`, on both sides. `Causal() & Local(8)` sees only the past."""

    equation: ClassVar[str] = "allowed(i, j) = |i − j| < window"
    reference: ClassVar[str] = "Beltagy et al. 2020, Longformer"

    window: int = knob(default=8, ge=1, help="positions seen on each side, including the token itself")

    def allowed(self, i: Any, j: Any) -> Any:
        return (i - j < self.window) & (j - i < self.window)


class Sinks(Pattern):
    """A token sees the first tokens of the text and a local window."""

    equation: ClassVar[str] = "allowed(i, j) = j < first  or  |i − j| < window"
    reference: ClassVar[str] = "Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks"

    first: int = knob(default=4, ge=1, help="tokens at the start that every token sees")
    window: int = knob(default=8, ge=1, help="positions seen on each side, including the token itself")

    def allowed(self, i: Any, j: Any) -> Any:
        return (j < self.first) | ((i - j < self.window) & (j - i < self.window))


class Prefix(Pattern):
    """Every token sees the first n tokens. `Causal() | Prefix(n)` is a prefix language model."""

    equation: ClassVar[str] = "allowed(i, j) = j < n"
    reference: ClassVar[str] = "Raffel et al. 2020, Exploring the Limits of Transfer Learning, section 3.2.1"

    n: int = knob(default=4, ge=1, help="length of the prefix")

    def allowed(self, i: Any, j: Any) -> Any:
        return (j < self.n) & (i >= 0)


class And(Pattern):
    """Keys that both patterns allow; written `a & b`."""

    equation: ClassVar[str] = "allowed(i, j) = a(i, j) and b(i, j)"
    reference: ClassVar[str] = "set intersection"
    notation: ClassVar[str] = "({a} & {b})"

    a: Pattern = knob(default=Causal(), help="first pattern")
    b: Pattern = knob(default=Local(), help="second pattern")

    def allowed(self, i: Any, j: Any) -> Any:
        return self.a.allowed(i, j) & self.b.allowed(i, j)

    def by_head(self, heads: int) -> tuple[Pattern, ...]:
        return _head_by_head(self.a, self.b, heads, And)


class Or(Pattern):
    """Keys that at least one of two patterns allows; written `a | b`."""

    equation: ClassVar[str] = "allowed(i, j) = a(i, j) or b(i, j)"
    reference: ClassVar[str] = "set union"
    notation: ClassVar[str] = "({a} | {b})"

    a: Pattern = knob(default=Local(), help="first pattern")
    b: Pattern = knob(default=Prefix(), help="second pattern")

    def allowed(self, i: Any, j: Any) -> Any:
        return self.a.allowed(i, j) | self.b.allowed(i, j)

    def by_head(self, heads: int) -> tuple[Pattern, ...]:
        return _head_by_head(self.a, self.b, heads, Or)


class PerHead(Pattern):
    """Heads of one layer with different patterns: head h has pattern h, and the list repeats."""

    equation: ClassVar[str] = "allowed_h(i, j) = pattern_(h mod n)(i, j)"
    reference: ClassVar[str] = "Child et al. 2019, Generating Long Sequences with Sparse Transformers, section 4.2"

    patterns: tuple[Pattern, ...] = knob(default=(Local(), Full()), help="the pattern of each head, repeated")

    def check(self) -> None:
        if not self.patterns:
            raise InputError("PerHead needs at least one pattern, such as PerHead((Local(8), Causal()))")

    def allowed(self, i: Any, j: Any) -> Any:
        """True where any head may attend."""
        first, *others = (pattern.allowed(i, j) for pattern in self.patterns)
        for more in others:
            first = first | more
        return first

    def by_head(self, heads: int) -> tuple[Pattern, ...]:
        if len(self.patterns) > heads:
            raise InputError(f"{self} has {len(self.patterns)} patterns, and a layer has {heads} heads")
        return tuple(self.patterns[h % len(self.patterns)] for h in range(heads))


def _head_by_head(
    a: Pattern, b: Pattern, heads: int, combine: Callable[[Pattern, Pattern], Pattern]
) -> tuple[Pattern, ...]:
    """Combine the patterns of each head, or only two patterns if all heads have the same."""
    left, right = a.by_head(heads), b.by_head(heads)
    count = max(len(left), len(right))
    return tuple(combine(left[h % len(left)], right[h % len(right)]) for h in range(count))
