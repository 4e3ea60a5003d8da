"""Gates: what multiplies the output of the heads before the output projection.

Shapes: o (B, H, T, d), the heads' outputs; x, the input of the layer: (B, T, D), packed (N, D) or (B, D).
"""

from __future__ import annotations

import abc
from typing import ClassVar, Literal

from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.parts.layer import Layer
from headtohead.parts.sequence.mask import Mask
from headtohead.spec import Part, knob


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


class OutputGate(Gate):
    """A gate between zero and one for each output of the heads, computed from the input of the layer."""

    equation: ClassVar[str] = "o ⊙ sigmoid(W_g x),  one gate for each number of o, or for each head"
    reference: ClassVar[str] = (
        "Qiu et al. 2025, Gated Attention for Large Language Models; with per=head and reads=12: "
        "modded-nanogpt, log of the record of 2025-08-23"
    )

    per: Literal["element", "head"] = knob(default="element", help="one gate for each number, or for each head")
    reads: int | None = knob(default=None, ge=1, help="read only the first so many numbers of x; none: all")

    def build(self, layer: Layer) -> GateHooks:
        if self.reads is not None and self.reads > layer.dims.width:
            raise InputError(
                f"the gate reads {self.reads} numbers of x, and the width of the model is {layer.dims.width}: "
                "set reads to at most the width"
            )
        return OutputGateHooks(layer, self)


class OutputGateHooks(GateHooks):
    def __init__(self, layer: Layer, spec: OutputGate) -> None:
        super().__init__()
        self.reads, self.heads = spec.reads or layer.dims.width, layer.dims.heads
        numbers = layer.dims.head_width if spec.per == "element" else 1
        self.project = nn.Linear(self.reads, self.heads * numbers, bias=False)

    def forward(self, o: Tensor, x: Tensor, mask: Mask) -> Tensor:
        gates = mask.texts(self.project(x[..., : self.reads]).sigmoid())  # (B, T, H·d) or (B, T, H)
        return o * gates.unflatten(-1, (self.heads, -1)).transpose(1, 2)
