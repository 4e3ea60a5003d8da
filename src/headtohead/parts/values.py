"""Values: what is mixed into the values of a layer before they are weighted.

Shapes: v (B, Hkv, T, d); the forward pass's `memo` has the token ids (B, T) and the values of the first layer.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.parts.layer import Layer
from headtohead.parts.sequence.memo import Memo
from headtohead.spec import Part, knob


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


class ValueResidual(Values):
    """A mix of the layer's own values and the values of the first layer, so that they reach every layer."""

    equation: ClassVar[str] = "v ← own · v + first · v_1,  v_1 the values of the first layer"
    reference: ClassVar[str] = "Zhou et al. 2024, Value Residual Learning"

    own: float = knob(default=0.5, help="share of the layer's own values at the start")
    first: float = knob(default=0.5, help="share of the first layer's values at the start")
    learned: bool = knob(default=True, help="learn both shares in each layer; otherwise they stay")

    def build(self, layer: Layer) -> ValueHooks:
        return ValueResidualHooks(self)


class ValueResidualHooks(ValueHooks):
    own: Tensor
    first: Tensor

    def __init__(self, spec: ValueResidual) -> None:
        super().__init__()
        for name, share in (("own", spec.own), ("first", spec.first)):
            if spec.learned:
                self.register_parameter(name, nn.Parameter(torch.tensor(share)))
            else:
                self.register_buffer(name, torch.tensor(share), persistent=False)

    def forward(self, v: Tensor, memo: Memo) -> Tensor:
        first = v if memo.values is None else memo.values
        if first.shape != v.shape:
            raise InputError(
                f"values of the shape {tuple(v.shape[1:])} cannot be mixed with those of the first layer, "
                f"{tuple(first.shape[1:])}: use ValueResidual in layers with values of one shape"
            )
        return self.own * v + self.first * first


class ValueEmbeddings(Values):
    """A second token embedding in each layer, added to the values."""

    equation: ClassVar[str] = "v_j ← v_j + scale · E[token_j],  E a table of V × H_kv·d numbers"
    reference: ClassVar[str] = "modded-nanogpt, log of the record of 2024-12-04; Zhou et al. 2024"

    scale: float = knob(default=0.5, help="the scale at the start; it is learned in each layer")

    def build(self, layer: Layer) -> ValueHooks:
        return ValueEmbeddingHooks(layer, self.scale)


class ValueEmbeddingHooks(ValueHooks):
    def __init__(self, layer: Layer, scale: float) -> None:
        super().__init__()
        self.table = nn.Embedding(layer.vocab, layer.kv_heads * layer.dims.head_width)
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, v: Tensor, memo: Memo) -> Tensor:
        more = self.table(memo.ids).unflatten(-1, (v.shape[1], v.shape[3])).transpose(1, 2)  # (B, Hkv, T, d)
        return v + self.scale * more
