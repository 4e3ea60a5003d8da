"""Attention patterns: which key j a query i may look at. Functions of positions, combined with & and |.

    Causal() & Local(8)      the last eight tokens, the query's own included
    Causal() | Prefix(4)     a prefix read both ways, then left to right

A pattern has no tensors: its equation is on the spec. `allowed` works on anything with <, & and |.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

from headtohead.spec import Part, knob


class Pattern(Part, family="pattern"):
    """Which keys a query may look at."""

    # Said of patterns with a `window` knob: a query sees exactly `window` positions on each side, its own included.

    @abc.abstractmethod
    def allowed(self, i: Any, j: Any) -> Any:
        """True where query position i may look at key position j; elementwise, i and j broadcast."""

    def __and__(self, other: Pattern) -> Pattern:
        return And(self, other)

    def __or__(self, other: Pattern) -> Pattern:
        return Or(self, other)

    def is_causal(self, block: int) -> bool:
        """Whether no query within the block sees a later key."""
        return not any(bool(self.allowed(i, j)) for i in range(block) for j in range(i + 1, block))


class Full(Pattern):
    """Every token sees every token."""

    equation: ClassVar[str] = "allowed(i, j) = true"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need"

    def allowed(self, i: Any, j: Any) -> Any:
        return (i >= 0) & (j >= 0)


class Causal(Pattern):
    """A token sees itself and what came before."""

    equation: ClassVar[str] = "allowed(i, j) = j ≤ i"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2.3"

    def allowed(self, i: Any, j: Any) -> Any:
        return j <= i


class Local(Pattern):
    """A band: the tokens nearer than `window`, on both sides. `Causal() & Local(8)` looks back only."""

    equation: ClassVar[str] = "allowed(i, j) = |i − j| < window"
    reference: ClassVar[str] = "Beltagy et al. 2020, Longformer"

    window: int = knob(default=8, ge=1, help="positions seen on each side, the token's own included")

    def allowed(self, i: Any, j: Any) -> Any:
        return (i - j < self.window) & (j - i < self.window)


class Sinks(Pattern):
    """The first tokens always, and a local band."""

    equation: ClassVar[str] = "allowed(i, j) = j < first  or  |i − j| < window"
    reference: ClassVar[str] = "Xiao et al. 2023, Efficient Streaming Language Models with Attention Sinks"

    first: int = knob(default=4, ge=1, help="tokens at the start that everyone may look at")
    window: int = knob(default=8, ge=1, help="positions seen on each side, the token's own included")

    def allowed(self, i: Any, j: Any) -> Any:
        return (j < self.first) | ((i - j < self.window) & (j - i < self.window))


class Prefix(Pattern):
    """The first n tokens, for everyone. `Causal() | Prefix(n)` is a prefix language model."""

    equation: ClassVar[str] = "allowed(i, j) = j < n"
    reference: ClassVar[str] = "Raffel et al. 2020, Exploring the Limits of Transfer Learning, section 3.2.1"

    n: int = knob(default=4, ge=1, help="length of the prefix")

    def allowed(self, i: Any, j: Any) -> Any:
        return (j < self.n) & (i >= 0)


class And(Pattern):
    """Where both patterns allow it; written `a & b`."""

    equation: ClassVar[str] = "allowed(i, j) = a(i, j) and b(i, j)"
    reference: ClassVar[str] = "set intersection"

    a: Pattern = knob(default=Causal(), help="one pattern")
    b: Pattern = knob(default=Local(), help="the other")

    def __str__(self) -> str:
        return f"({self.a} & {self.b})"

    def allowed(self, i: Any, j: Any) -> Any:
        return self.a.allowed(i, j) & self.b.allowed(i, j)


class Or(Pattern):
    """Where either pattern allows it; written `a | b`."""

    equation: ClassVar[str] = "allowed(i, j) = a(i, j) or b(i, j)"
    reference: ClassVar[str] = "set union"

    a: Pattern = knob(default=Local(), help="one pattern")
    b: Pattern = knob(default=Prefix(), help="the other")

    def __str__(self) -> str:
        return f"({self.a} | {self.b})"

    def allowed(self, i: Any, j: Any) -> Any:
        return self.a.allowed(i, j) | self.b.allowed(i, j)
