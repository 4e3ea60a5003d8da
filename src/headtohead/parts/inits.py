"""Initialisations: the values that linear layers and embeddings start with, each drawn from a random stream of its own.

Other parameters, such as the gains of norms, start as the constructor or `reset_parameters` of their module sets them.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Generator, Tensor, nn

from headtohead.spec import Part, knob


@dataclass(frozen=True)
class Weight:
    """One weight or bias of a linear layer, or one table of an embedding."""

    values: Tensor  # to be set in place
    module: nn.Linear | nn.Embedding
    kind: str  # weight or bias
    depth: int  # number of blocks that a token passes through

    @property
    def in_table(self) -> bool:
        return isinstance(self.module, nn.Embedding)

    @property
    def into_residual(self) -> bool:
        """Whether it writes into the residual stream."""
        return bool(getattr(self.module, "into_residual", False))

    @property
    def fans(self) -> tuple[int, int]:
        """The number of inputs and of outputs."""
        outputs, inputs = self.module.weight.shape
        return inputs, outputs


class Init(Part, family="init"):
    """How weights are initialised."""

    @abc.abstractmethod
    def draw(self, weight: Weight, random: Generator) -> None:
        """Set the values of one weight in place, with random numbers from `random` alone."""


class InitSpec(Init):
    """GPT's rule by default: normal with one deviation. `InitSpec.torch()` is PyTorch's."""

    equation: ClassVar[str] = "w ~ N(0, std²), biases 0; projections into the residual stream · 1/sqrt(2·layers)"
    reference: ClassVar[str] = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners"

    embedding_std: float = knob(
        default=0.02, gt=0, help="standard deviation of token and position embeddings; PyTorch's default is 1.0"
    )
    linear: Literal["normal", "torch", "xavier"] = knob(
        default="normal",
        help="normal: N(0, linear_std), biases zero; torch: U(±1/sqrt(fan_in)); xavier: Glorot uniform, biases zero",
    )
    linear_std: float = knob(default=0.02, gt=0, help="standard deviation of linear layers with linear=normal")
    residual_scaling: bool = knob(
        default=True, help="multiply initial projections into the residual stream by 1/sqrt(2·layers)"
    )

    @classmethod
    def torch(cls) -> InitSpec:
        """Return PyTorch's defaults: unit-variance embeddings, uniform linear layers, no residual scaling."""
        return cls(embedding_std=1.0, linear="torch", residual_scaling=False)

    def draw(self, weight: Weight, random: Generator) -> None:
        w = weight.values
        if weight.in_table:
            w.normal_(0, self.embedding_std, generator=random)
            return
        fan_in, fan_out = weight.fans
        if self.linear == "torch":
            bound = 1 / math.sqrt(fan_in)
            w.uniform_(-bound, bound, generator=random)
        elif weight.kind == "bias":
            w.zero_()
        elif self.linear == "xavier":
            bound = math.sqrt(6 / (fan_in + fan_out))
            w.uniform_(-bound, bound, generator=random)
        else:
            w.normal_(0, self.linear_std, generator=random)
        if weight.kind == "weight" and self.residual_scaling and weight.into_residual:
            w.mul_(1 / math.sqrt(2 * weight.depth))


class ZeroProjections(Init):
    """Projections into the residual stream start at zero, so that every block starts as the identity."""

    equation: ClassVar[str] = "w = 0 for projections into the residual stream, other weights by `others`"
    reference: ClassVar[str] = "Zhang et al. 2019, Fixup Initialization"

    others: Init = knob(default=InitSpec(), help="rule for all other weights")

    def draw(self, weight: Weight, random: Generator) -> None:
        if weight.into_residual:
            weight.values.zero_()
        else:
            self.others.draw(weight, random)


class FanIn(Init):
    """The standard deviation of a matrix falls with its number of inputs, so that activations have one scale at every
    width."""

    equation: ClassVar[str] = "w ~ N(0, gain²/fan_in), biases 0; into the residual stream · 1/sqrt(2·layers)"
    reference: ClassVar[str] = "He et al. 2015, Delving Deep into Rectifiers"

    gain: float = knob(default=1.0, gt=0, help="standard deviation of outputs for inputs of standard deviation one")
    embedding_std: float = knob(default=1.0, gt=0, help="standard deviation of token and position embeddings")
    residual_scaling: bool = knob(
        default=True, help="multiply initial projections into the residual stream by 1/sqrt(2·layers)"
    )

    def draw(self, weight: Weight, random: Generator) -> None:
        w = weight.values
        if weight.kind == "bias":
            w.zero_()
            return
        std = self.embedding_std if weight.in_table else self.gain / math.sqrt(weight.fans[0])
        scaled = self.residual_scaling and weight.into_residual
        w.normal_(0, std / math.sqrt(2 * weight.depth) if scaled else std, generator=random)
