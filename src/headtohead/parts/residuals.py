"""Residual connections: where the norm is placed around a sublayer f, and what follows the last block.

The residual stream x has shape (B, T, D), packed (N, D), or (B, D) for one token of each text. A wiring may widen it.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from headtohead.parts.layer import Layer
from headtohead.spec import Part

Sublayer = Callable[[Tensor], Tensor]
Step = Callable[[Tensor], Tensor]  # a sublayer with its wire: from stream to stream
MakeNorm = Callable[[], nn.Module]


class Wire(nn.Module):
    """Connects one sublayer f to the residual stream. It calls f exactly once."""

    def enter(self, x: Tensor, start: Tensor) -> Tensor:
        """Change the stream before the sublayer. `start` is what entered the first block."""
        return x

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + f(x)


class Residual(Part, family="residual"):
    """How a sublayer is connected to the residual stream."""

    @abc.abstractmethod
    def build(self, norm: MakeNorm) -> Wire:
        """Build the connection of one sublayer. Each call of `norm()` makes a new norm."""

    def build_in(self, layer: Layer, norm: MakeNorm) -> Wire:
        """Build the connection of one sublayer of a layer. Override this for a wiring that needs sizes."""
        return self.build(norm)

    def run(self, x: Tensor, first: Step, second: Step) -> Tensor:
        """Apply the mixer (`first`) and the feed-forward layer (`second`) to the stream, each with its wire."""
        return second(first(x))

    def open(self, x: Tensor) -> Tensor:
        """Make the residual stream from what enters the first block."""
        return x

    def close(self, x: Tensor) -> Tensor:
        """Return vectors (…, D) from the residual stream after the last block."""
        return x

    def build_last(self, norm: MakeNorm) -> nn.Module:
        """Build what follows the last block: a norm, because the residual stream has none so far."""
        return norm()


class PreNorm(Residual):
    """A norm before each sublayer."""

    equation: ClassVar[str] = "x + f(norm(x)), and a norm after the last block"
    reference: ClassVar[str] = "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture"

    def build(self, norm: MakeNorm) -> Wire:
        return PreWire(norm)


class PreWire(Wire):
    def __init__(self, norm: MakeNorm) -> None:
        super().__init__()
        self.norm = norm()

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + f(self.norm(x))


class PostNorm(Residual):
    """A norm after each residual sum."""

    equation: ClassVar[str] = "norm(x + f(x))"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.1"

    def build(self, norm: MakeNorm) -> Wire:
        return PostWire(norm)

    def build_last(self, norm: MakeNorm) -> nn.Module:
        return nn.Identity()  # the last block ends with a norm


class PostWire(Wire):
    def __init__(self, norm: MakeNorm) -> None:
        super().__init__()
        self.norm = norm()

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return self.norm(x + f(x))


class Sandwich(Residual):
    """A norm before and a norm after each sublayer, none on the residual stream."""

    equation: ClassVar[str] = "x + norm'(f(norm(x))), and a norm after the last block"
    reference: ClassVar[str] = "Ding et al. 2021, CogView"

    def build(self, norm: MakeNorm) -> Wire:
        return SandwichWire(norm)


class SandwichWire(Wire):
    def __init__(self, norm: MakeNorm) -> None:
        super().__init__()
        self.norm, self.norm_after = norm(), norm()

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.norm_after(f(self.norm(x)))
