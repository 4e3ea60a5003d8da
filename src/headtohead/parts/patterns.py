"""Attention patterns: which key j a query i may attend to. Functions of positions, combined with & and |.

    Causal() & Local(8)      the last 8 tokens, including the query itself
    Causal() | Prefix(4)     a prefix of 4 tokens that all tokens see, then left to right

A pattern has no module and no weights: the spec holds the equation. `allowed` works on integers, arrays and tensors.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

from headtohead.spec import Part, knob


class Pattern(Part, family="pattern"):
    """Which keys a query may attend to. Patterns are combined with & and |.

    A pattern with a knob called `window` claims that a query sees exactly `window` positions on each side, including
    itself. The audit checks this claim.
    """

    @abc.abstractmethod
    def allowed(self, i: Any, j: Any) -> Any:
        """True where a query at position i may attend to a key at position j; elementwise, i and j broadcast."""

    def __and__(self, other: Pattern) -> Pattern:
        return And(self, other)

    def __or__(self, other: Pattern) -> Pattern:
        return Or(self, other)

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

    window: int = knob(default=8, ge=1, shown=True, help="positions seen on each side, including the token itself")

    def allowed(self, i: Any, j: Any) -> Any:
        return (i - j < self.window) & (j - i < self.window)


class Sinks(Pattern):
    """A token sees the first tokens of the text and a local window."""

    equation: ClassVar[str] = "allowed(i, j) = j < first  or  |i − j| < window"
    reference: ClassVar[str] = "Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks"

    first: int = knob(default=4, ge=1, shown=True, help="tokens at the start that every token sees")
    window: int = knob(default=8, ge=1, shown=True, help="positions seen on each side, including the token itself")

    def allowed(self, i: Any, j: Any) -> Any:
        return (j < self.first) | ((i - j < self.window) & (j - i < self.window))


class Prefix(Pattern):
    """Every token sees the first n tokens. `Causal() | Prefix(n)` is a prefix language model."""

    equation: ClassVar[str] = "allowed(i, j) = j < n"
    reference: ClassVar[str] = "Raffel et al. 2020, Exploring the Limits of Transfer Learning, section 3.2.1"

    n: int = knob(default=4, ge=1, shown=True, help="length of the prefix")

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


class Or(Pattern):
    """Keys that at least one of two patterns allows; written `a | b`."""

    equation: ClassVar[str] = "allowed(i, j) = a(i, j) or b(i, j)"
    reference: ClassVar[str] = "set union"
    notation: ClassVar[str] = "({a} | {b})"

    a: Pattern = knob(default=Local(), help="first pattern")
    b: Pattern = knob(default=Prefix(), help="second pattern")

    def allowed(self, i: Any, j: Any) -> Any:
        return self.a.allowed(i, j) | self.b.allowed(i, j)
