"""Gates: what multiplies the output of the heads before the output projection.

Shapes: o (B, H, T, d), the heads' outputs; x, the input of the layer: (B, T, D), packed (N, D) or (B, D).
"""

from __future__ import annotations

import abc
from typing import ClassVar

from torch import Tensor, nn

from headtohead.parts.layer import Layer
from headtohead.parts.sequence.mask import Mask
from headtohead.spec import Part


class GateHooks(nn.Module):
    """The module of a gate. Maps the heads' outputs o (B, H, T, d) to the same shape."""

    def forward(self, o: Tensor, x: Tensor, mask: Mask) -> Tensor:
        """Return the heads unchanged."""
        return o


class Gate(Part, family="gate"):
    """What multiplies the output of the heads."""

    @abc.abstractmethod
    def build(self, layer: Layer) -> GateHooks:
        """Build the module for one layer."""


class NoGate(Gate):
    """No gate: heads pass unchanged."""

    equation: ClassVar[str] = "o"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2"

    def build(self, layer: Layer) -> GateHooks:
        return GateHooks()
