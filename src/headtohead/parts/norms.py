"""Norms, for the residual stream, for token embeddings and for queries and keys."""

from __future__ import annotations

import abc
from typing import ClassVar

import torch
from torch import Tensor, nn

from headtohead.spec import Part, knob


class Norm(Part, family="norm"):
    """What keeps activations of one size."""

    @abc.abstractmethod
    def build(self, width: int) -> nn.Module:
        """A module that maps (…, width) to the same shape, each vector on its own."""


class LayerNorm(Norm):
    """Mean zero, variance one, then a learned gain and bias."""

    equation: ClassVar[str] = "(x − mean(x)) / sqrt(var(x) + eps) · g + b"
    reference: ClassVar[str] = "Ba et al. 2016, Layer Normalization"

    eps: float = knob(default=1e-5, gt=0, help="keeps the division finite")
    bias: bool = knob(default=True, help="learn b")

    def build(self, width: int) -> nn.Module:
        return DirectLayerNorm(width, eps=self.eps, bias=self.bias)


class DirectLayerNorm(nn.LayerNorm):
    """The same call without the checks of torch.nn.functional before it, which take a fifth of its time on a token."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Norm):
    """Root mean square one, then a learned gain."""

    equation: ClassVar[str] = "x / sqrt(mean(x²) + eps) · g"
    reference: ClassVar[str] = "Zhang and Sennrich 2019, Root Mean Square Layer Normalization"

    eps: float = knob(default=1e-6, gt=0, help="keeps the division finite")

    def build(self, width: int) -> nn.Module:
        return nn.RMSNorm(width, eps=self.eps)


class NoNorm(Norm):
    """Nothing."""

    equation: ClassVar[str] = "x"
    reference: ClassVar[str] = "the absence of one"

    def build(self, width: int) -> nn.Module:
        return nn.Identity()
