"""The family of mixers: the sublayer that passes information from token to token."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

from torch import Tensor, nn

from headtohead.parts.layer import Layer
from headtohead.parts.patterns import Pattern
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.memo import Memo
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import Part


class MixerHooks(nn.Module):
    """The module of a mixer."""

    @abc.abstractmethod
    def forward(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None, memo: Memo) -> Tensor:
        """Mix tokens. x and the result have shape (B, T, D), packed (N, D), or (B, D) for one token of each text.
        `mask.texts(x)` makes texts of all three, and `mask.like(y, x)` turns a result back. With a cache, x continues
        the texts of earlier calls; what must be kept is stored in it."""


class Mixer(Part, family="mixer"):
    """How a layer passes information from token to token."""

    # Which other settings of a layer the mixer uses. A setting that is not used keeps its default. "position" stands
    # for the rotation and the bias of a position, "rotation" for its rotation alone.
    uses: ClassVar[tuple[str, ...]] = ()
    maps: ClassVar[bool] = False  # whether it computes attention weights, which can be looked at

    @property
    def dense(self) -> bool:
        """Whether every token that may be seen has an influence above zero; the audit checks this claim."""
        return True

    def allowed(self, pattern: Pattern, i: Any, j: Any) -> Any:
        """True where a token at position i may depend on a token at position j; the audit checks this claim."""
        return pattern.allowed(i, j)

    @abc.abstractmethod
    def build(self, layer: Layer) -> MixerHooks:
        """Build the module for one layer. Set `into_residual = True` on the linear layer that writes into the residual
        stream: the initialisation scales such layers."""
