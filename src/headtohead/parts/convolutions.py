"""Convolutions: short mixing of a token with the tokens just before it, at up to four sites of a layer.

    A  before the mixer    B  on queries, keys and values    C  before the feed-forward    D  inside the feed-forward

Shapes: x (B, T, C), packed (N, C) or one token of each text (B, C); `mask.texts` and `mask.like` convert.
"""

from __future__ import annotations

import abc
from typing import ClassVar, Literal

from torch import Tensor, nn

from headtohead.parts.layer import Layer
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import Part

Site = Literal["A", "B", "C", "D"]


class ConvolutionHooks(nn.Module):
    """The module of a convolution at one site. Maps x to the same shape."""

    @property
    def neutral(self) -> bool:
        """Whether it changes nothing, so that a feed-forward layer need not open for it."""
        return type(self).forward is ConvolutionHooks.forward

    def forward(self, x: Tensor, mask: Mask, cache: LayerCache | None) -> Tensor:
        """Return x unchanged."""
        return x


class Convolution(Part, family="convolution"):
    """How a token is mixed with the tokens just before it."""

    def before(self, site: Site) -> int:
        """Return how many earlier tokens a token sees by the convolution at a site."""
        return 0

    @abc.abstractmethod
    def build(self, layer: Layer, site: Site, channels: int) -> ConvolutionHooks:
        """Build the module for one site of one layer. `ConvolutionHooks()` changes nothing."""


class NoConvolution(Convolution):
    """No convolution."""

    equation: ClassVar[str] = "x"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need"

    def build(self, layer: Layer, site: Site, channels: int) -> ConvolutionHooks:
        return ConvolutionHooks()
