"""Convolutions: short mixing of a token with the tokens just before it, at up to four sites of a layer.

    A  before the mixer    B  on queries, keys and values    C  before the feed-forward    D  inside the feed-forward

Shapes: x (B, T, C), packed (N, C) or one token of each text (B, C); `mask.texts` and `mask.like` convert.
"""

from __future__ import annotations

import abc
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.parts.layer import Layer
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.shifts import ShortConvolution, causal_convolution
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import Part, knob

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


class AtSites(Convolution):
    """Base of convolutions that are used at some of the four sites."""

    sites: str = knob(
        default="ABCD", help="where: A before the mixer, B on q, k, v, C before and D in the feed-forward"
    )

    def check(self) -> None:
        if not self.sites or set(self.sites) - set("ABCD") or len(set(self.sites)) < len(self.sites):
            raise InputError(f"sites are letters among A, B, C and D, each once, not '{self.sites}'")


class Canon(AtSites):
    """A short causal convolution of each channel, added to what it reads, at up to four sites of every layer.

    `Canon(sites='B', residual=False, activation='silu')` is the short convolution of many recurrent mixers.
    """

    equation: ClassVar[str] = "x_t + act( Σ_r w_r ⊙ x_(t−r) ),  r = 0 … width − 1"
    reference: ClassVar[str] = "Allen-Zhu 2025, Physics of Language Models: Part 4.1, Canon Layers"

    width: int = knob(default=4, ge=2, le=64, help="tokens that a filter reads, the token itself included")
    residual: bool = knob(default=True, help="add the convolution to x; otherwise it replaces x")
    activation: Literal["none", "silu"] = knob(default="none", help="none, or silu of the result of the convolution")
    bias: bool = knob(default=False, help="learn a bias for each channel")

    def before(self, site: Site) -> int:
        return self.width - 1 if site in self.sites else 0

    def build(self, layer: Layer, site: Site, channels: int) -> ConvolutionHooks:
        return CanonHooks(self, site, channels) if site in self.sites else ConvolutionHooks()


class CanonHooks(ConvolutionHooks):
    def __init__(self, spec: Canon, site: Site, channels: int) -> None:
        super().__init__()
        self.spec, self.state = spec, f"convolution {site}"
        self.filters = ShortConvolution(channels, spec.width, bias=spec.bias)
        self.act = nn.SiLU() if spec.activation == "silu" else nn.Identity()

    def forward(self, x: Tensor, mask: Mask, cache: LayerCache | None) -> Tensor:
        y, last = self.filters(mask.texts(x), None if cache is None else cache.states.get(self.state), mask.keep)
        if cache is not None:
            cache.states[self.state] = last
        y = mask.like(self.act(y), x)
        return x + y if self.spec.residual else y


class TokenShift(AtSites):
    """Each channel mixes a token with the token before it, by a learned share."""

    equation: ClassVar[str] = "m ⊙ x_t + (1 − m) ⊙ x_(t−1),  m learned"
    reference: ClassVar[str] = "Peng et al. 2023, RWKV: Reinventing RNNs for the Transformer Era"

    sites: str = knob(default="AC", help="where: A before the mixer, B on q, k, v, C before and D in the feed-forward")
    share: float = knob(default=0.5, ge=0, le=1, help="initial value of m in every channel")

    def before(self, site: Site) -> int:
        return 1 if site in self.sites else 0

    def build(self, layer: Layer, site: Site, channels: int) -> ConvolutionHooks:
        return ShiftHooks(self, site, channels) if site in self.sites else ConvolutionHooks()


class ShiftHooks(ConvolutionHooks):
    def __init__(self, spec: TokenShift, site: Site, channels: int) -> None:
        super().__init__()
        self.state = f"convolution {site}"
        self.share = nn.Parameter(torch.full((channels,), spec.share))

    def forward(self, x: Tensor, mask: Mask, cache: LayerCache | None) -> Tensor:
        weight = torch.stack([1 - self.share, self.share], dim=1)  # (C, 2)
        last = None if cache is None else cache.states.get(self.state)
        y, last = causal_convolution(mask.texts(x), weight, None, last, mask.keep)
        if cache is not None:
            cache.states[self.state] = last
        return mask.like(y, x)
