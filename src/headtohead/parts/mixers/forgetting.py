"""Forgetting attention: softmax attention with a learned forget gate, which lowers the scores of what is far back."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.parts.layer import Layer
from headtohead.parts.mixers.attention import Attention, MultiHead
from headtohead.parts.mixers.mixer import Mixer, MixerHooks
from headtohead.parts.mixers.recurrent import kept
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.memo import Memo
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob

SUMS = "forgotten"  # the name of the sums in a layer's cache


class Forgetting(Mixer):
    """Softmax attention in which each token forgets a share of what came before it.

    Where a query sees later keys too, they are forgotten in the same way: −|c_i − c_j| is added to the scores.
    """

    equation: ClassVar[str] = (
        "o_i = Σ_j softmax_j( scale · <q_i, k_j> / sqrt(d) + bias_ij + c_i − c_j ) · v_j,  "
        "c_i = Σ_t≤i log f_t,  f_t = sigmoid(W_f x_t + b + start)"
    )
    reference: ClassVar[str] = "Lin et al. 2025, Forgetting Transformer: Softmax Attention with a Forget Gate"
    uses: ClassVar[tuple[str, ...]] = Attention.uses
    maps: ClassVar[bool] = True

    start: float = knob(
        default=0.0, help="added to the gates before the sigmoid: 0 starts with f = 1/2, 5 with f = 0.993"
    )

    def build(self, layer: Layer) -> MixerHooks:
        return ForgettingHeads(layer, self)


class ForgettingHeads(MultiHead):
    def __init__(self, layer: Layer, spec: Forgetting) -> None:
        super().__init__(layer)
        self.forget = nn.Linear(layer.dims.width, layer.dims.heads)
        self.start = spec.start

    def forward(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None, memo: Memo) -> Tensor:
        return super().forward(x, mask, Forgotten(position, self._sums(x, mask, cache)), cache, memo)

    def _sums(self, x: Tensor, mask: Mask, cache: LayerCache | None) -> Tensor:
        """Return c (B, H, Tk), the sums of log f up to each token of the text so far. Padding forgets nothing."""
        gates = self.forget(mask.texts(x)).transpose(1, 2)  # (B, H, Tq)
        sums = kept(F.logsigmoid(gates + self.start), mask.keep).cumsum(dim=-1)
        if cache is None:
            return sums
        if SUMS in cache.states:
            before = cache.states[SUMS]
            sums = torch.cat([before, before[..., -1:] + sums], dim=-1)
        cache.states[SUMS] = sums
        return sums


class Forgotten:
    """A position with the bias of the forget gates added: what `attend` reads in place of the position."""

    def __init__(self, position: LayerHooks, sums: Tensor) -> None:
        self.position, self.sums, self.scale = position, sums, position.scale

    def rotate(self, x: Tensor, i: Tensor) -> Tensor:
        return self.position.rotate(x, i)

    def bias(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor:
        rows = self.sums[:, :, -q.shape[2] :, None]  # (B, H, Tq, 1)
        forgotten = -(rows - self.sums[:, :, None, :]).abs()  # (B, H, Tq, Tk)
        bias = self.position.bias(q, k, i, j)
        return forgotten if bias is None else forgotten + bias
