"""Norms for the residual stream, the token embeddings, and queries and keys."""

from __future__ import annotations

import abc
from typing import ClassVar

import torch
from torch import Tensor, nn

from headtohead.spec import Part, knob


class Norm(Part, family="norm"):
    """How activations are kept at one scale."""

    @abc.abstractmethod
    def build(self, width: int) -> nn.Module:
        """Build a module that maps (…, width) to the same shape, each vector separately."""


class LayerNorm(Norm):
    """Mean zero, variance one, then a learned gain and bias."""

    equation: ClassVar[str] = "(x − mean(x)) / sqrt(var(x) + eps) · g + b"
    reference: ClassVar[str] = "Ba et al. 2016, Layer Normalization"

    eps: float = knob(default=1e-5, gt=0, help="avoids division by zero")
    bias: bool = knob(default=True, help="learn the bias b")

    def build(self, width: int) -> nn.Module:
        return DirectLayerNorm(width, eps=self.eps, bias=self.bias)


class DirectLayerNorm(nn.LayerNorm):
    """nn.LayerNorm without the argument checks of torch.nn.functional, which take a fifth of the time of one token."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Norm):
    """Root mean square one, then a learned gain."""

    equation: ClassVar[str] = "x / sqrt(mean(x²) + eps) · g"
    reference: ClassVar[str] = "Zhang and Sennrich 2019, Root Mean Square Layer Normalization"

    eps: float = knob(default=1e-6, gt=0, help="avoids division by zero")

    def build(self, width: int) -> nn.Module:
        return nn.RMSNorm(width, eps=self.eps)


class DyT(Norm):
    """A tanh with a learned slope in place of a norm: no mean and no variance."""

    equation: ClassVar[str] = "g ⊙ tanh(a · x) + b,  a, g, b learned"
    reference: ClassVar[str] = "Zhu et al. 2025, Transformers without Normalization"

    slope: float = knob(default=0.5, gt=0, help="initial value of a")
    bias: bool = knob(default=True, help="learn the bias b")

    def build(self, width: int) -> nn.Module:
        return DyTLayer(width, self)


class DyTLayer(nn.Module):
    def __init__(self, width: int, spec: DyT) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(spec.slope))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if spec.bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.weight * torch.tanh(self.slope * x)
        return y if self.bias is None else y + self.bias


class NoNorm(Norm):
    """No norm: activations pass unchanged."""

    equation: ClassVar[str] = "x"
    reference: ClassVar[str] = "no norm"

    def build(self, width: int) -> nn.Module:
        return nn.Identity()
