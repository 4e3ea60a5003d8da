"""Retention, the mixer of RetNet: linear attention whose past fades at a fixed rate in each head."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.errors import InputError
from headtohead.parts.layer import Layer
from headtohead.parts.mixers.mixer import MixerHooks
from headtohead.parts.mixers.recurrent import STATE, RecurrentHeads, RecurrentMixer, heads, joined, kept, scan
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob


class Retention(RecurrentMixer):
    """Every query weighs the values of earlier tokens by its product with their keys, and less the older they are.

    The paper divides scores by several sums first. The norm of each head cancels these factors, so they are left out.
    """

    equation: ClassVar[str] = (
        "S_t = γ_h · S_(t−1) + k_tᵀ v_t,  o_t = norm(q_t · S_t) ⊙ silu(W_z x_t);  γ_h = 1 − 2^(−first − h), h = 0 … H−1"
    )
    reference: ClassVar[str] = "Sun et al. 2023, Retentive Network, sections 2.1 and 2.2"
    uses: ClassVar[tuple[str, ...]] = ("rotation", "kv_heads", "qk_norm", "fusion", "convolution", "biases")

    first: float = knob(default=5.0, ge=0.01, le=40, help="head 0 forgets the share 2^(−first) at each token")
    gated: bool = knob(default=True, help="multiply each head by silu of a projection of x")
    eps: float = knob(default=1e-5, gt=0, help="added to the variance of a head in its norm")

    def build(self, layer: Layer) -> MixerHooks:
        if layer.dims.head_width == 1:
            raise InputError(
                "Retention norms each head, and a head of width 1 would be zero: choose fewer heads, or set head_width"
            )
        return RetentionHeads(layer, self)


class RetentionHeads(RecurrentHeads):
    def __init__(self, layer: Layer, spec: Retention) -> None:
        super().__init__(layer)
        self.z = nn.Linear(layer.dims.width, self.widths[0], bias=False) if spec.gated else None
        self.decays = [[math.log1p(-(2.0 ** (-spec.first - h)))] for h in range(self.heads)]  # (H, 1): log γ
        self.eps = spec.eps

    def project(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None) -> Tensor:
        q, k, v = self.split(super().project(x, mask, position, cache))
        rotated = [position.rotate(q, mask.i), position.rotate(k, mask.i)]
        z = [] if self.z is None else [mask.texts(self.z(x))]
        return torch.cat([*map(joined, (*rotated, v)), *z], dim=-1)

    def read(self, x: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        q, k, v, *z = x.split_with_sizes(self.widths if self.z is None else [*self.widths, self.widths[0]], dim=-1)
        q, k, v = heads(q, self.heads), self.grouped(heads(k, self.kv_heads)), self.grouped(heads(v, self.kv_heads))
        g = kept(x.new_tensor(self.decays).expand(*q.shape[:3]), keep)
        o, state = scan(q, k, v, g, None if cache is None else cache.states.get(STATE))
        if cache is not None:
            cache.states[STATE] = state
        o = F.layer_norm(o, o.shape[-1:], eps=self.eps)
        o = o if self.z is None else o * F.silu(heads(z[0], self.heads))
        return self.out(joined(self.fuse(o, keep)))
