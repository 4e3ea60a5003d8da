"""Weightings: how scores become the weights of the values. Softmax is the default.

Shapes: scores and weights (B, H, Tq, Tk). A score of −inf is a key that the query may not see; its weight must be zero.
"""

from __future__ import annotations

import abc
from typing import ClassVar

from torch import Tensor, nn

from headtohead.parts.layer import Layer
from headtohead.spec import Part


class WeightingHooks(nn.Module):
    """The module of a weighting. Maps scores (B, H, Tq, Tk) to weights of the same shape."""

    @property
    def neutral(self) -> bool:
        """Whether it is plain softmax, so that fused attention can be used."""
        return type(self).forward is WeightingHooks.forward

    def forward(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)


class Weighting(Part, family="weighting"):
    """How scores become the weights of the values."""

    # Claims about the weights of a query; the audit checks them.
    sums_to_one: ClassVar[bool] = False
    dense: ClassVar[bool] = True  # every key that may be seen has a weight above zero

    @abc.abstractmethod
    def build(self, layer: Layer) -> WeightingHooks:
        """Build the module for one layer."""


class Softmax(Weighting):
    """Exponentials divided by their sum."""

    equation: ClassVar[str] = "a_ij = exp(s_ij) / Σ_k exp(s_ik)"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2.1"
    sums_to_one: ClassVar[bool] = True

    def build(self, layer: Layer) -> WeightingHooks:
        return WeightingHooks()
