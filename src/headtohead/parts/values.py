"""Values: what is mixed into the values of a layer before they are weighted.

Shapes: v (B, Hkv, T, d); the forward pass's `memo` has the token ids (B, T) and the values of the first layer.
"""

from __future__ import annotations

import abc
from typing import ClassVar

from torch import Tensor, nn

from headtohead.parts.layer import Layer
from headtohead.parts.sequence.memo import Memo
from headtohead.spec import Part


class ValueHooks(nn.Module):
    """The module of a value part. Maps values v (B, Hkv, T, d) to the same shape."""

    def forward(self, v: Tensor, memo: Memo) -> Tensor:
        """Return the values unchanged."""
        return v


class Values(Part, family="values"):
    """What is mixed into the values of a layer."""

    @abc.abstractmethod
    def build(self, layer: Layer) -> ValueHooks:
        """Build the module for one layer."""


class PlainValues(Values):
    """The values of the layer alone."""

    equation: ClassVar[str] = "v"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2"

    def build(self, layer: Layer) -> ValueHooks:
        return ValueHooks()
