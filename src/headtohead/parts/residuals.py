"""Residual wirings: where the norm stands around a sublayer f, and what ends the stack."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from headtohead.spec import Part

Sublayer = Callable[[Tensor], Tensor]
MakeNorm = Callable[[], nn.Module]


class Wire(nn.Module):
    """One sublayer's connection to the residual stream; calls f exactly once."""

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + f(x)


class Residual(Part, family="residual"):
    """How a sublayer is joined to the residual stream."""

    @abc.abstractmethod
    def build(self, norm: MakeNorm) -> Wire:
        """The wiring of one sublayer, with as many norms as it needs."""

    def build_last(self, norm: MakeNorm) -> nn.Module:
        """What follows the last block: a norm, because the stream itself was never normed."""
        return norm()


class PreNorm(Residual):
    """Norm before the sublayer."""

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
    """Norm after the sum."""

    equation: ClassVar[str] = "norm(x + f(x))"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.1"

    def build(self, norm: MakeNorm) -> Wire:
        return PostWire(norm)

    def build_last(self, norm: MakeNorm) -> nn.Module:
        return nn.Identity()  # the last block ends with a norm already


class PostWire(Wire):
    def __init__(self, norm: MakeNorm) -> None:
        super().__init__()
        self.norm = norm()

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return self.norm(x + f(x))


class Sandwich(Residual):
    """Norm before and after the sublayer, none on the stream."""

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
