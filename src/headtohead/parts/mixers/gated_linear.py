"""Gated linear attention (GLA): a linear recurrence that forgets each channel of its keys at a rate of each token."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.parts.layer import Layer
from headtohead.parts.mixers.mixer import MixerHooks
from headtohead.parts.mixers.recurrent import STATE, RecurrentHeads, RecurrentMixer, heads, joined, kept, scan
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob


class GatedLinear(RecurrentMixer):
    """Linear attention that forgets: a gate for each channel of the keys depends on the token."""

    equation: ClassVar[str] = (
        "S_t = α_tᵀ ⊙ S_(t−1) + k_tᵀ v_t,  α_t = sigmoid(W_2 W_1 x_t + b)^(1/τ);  "
        "o_t = norm(q_t · S_t / sqrt(d)) ⊙ silu(W_z x_t)"
    )
    reference: ClassVar[str] = "Yang et al. 2023, Gated Linear Attention Transformers with Hardware-Efficient Training"
    uses: ClassVar[tuple[str, ...]] = ("kv_heads", "qk_norm", "fusion", "convolution", "biases")

    rank: int = knob(default=16, ge=1, help="inner width of the projection that gives the gates, rows of W_1")
    temperature: float = knob(default=16.0, gt=0, help="τ: larger values make gates forget more slowly")
    gated: bool = knob(default=True, help="multiply each head by silu of a projection of x")
    eps: float = knob(default=1e-5, gt=0, help="added to the mean square of a head in its norm")

    def build(self, layer: Layer) -> MixerHooks:
        return GatedLinearHeads(layer, self)


class GatedLinearHeads(RecurrentHeads):
    def __init__(self, layer: Layer, spec: GatedLinear) -> None:
        super().__init__(layer)
        D, (queries, keys, _) = layer.dims.width, self.widths
        self.down, self.up = nn.Linear(D, spec.rank, bias=False), nn.Linear(spec.rank, keys)
        self.z = nn.Linear(D, queries, bias=False) if spec.gated else None
        self.norm = nn.RMSNorm(layer.dims.head_width, eps=spec.eps)
        self.scale, self.temperature = layer.dims.head_width**-0.5, spec.temperature
        self.sizes = [sum(self.widths), keys, *([queries] if spec.gated else [])]  # of q, k and v; gates; z

    def project(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None) -> Tensor:
        gates = [self.up(self.down(x)), *([] if self.z is None else [self.z(x)])]
        return torch.cat([super().project(x, mask, position, cache), mask.texts(torch.cat(gates, dim=-1))], dim=-1)

    def read(self, x: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        qkv, gates, *z = x.split_with_sizes(self.sizes, dim=-1)
        q, k, v = self.split(qkv)
        g = kept(F.logsigmoid(heads(gates, self.kv_heads)) / self.temperature, keep)  # log α
        k, v, g = self.grouped(kept(k, keep)), self.grouped(v), self.grouped(g)
        o, state = scan(self.scale * q, k, v, g, None if cache is None else cache.states.get(STATE))
        if cache is not None:
            cache.states[STATE] = state
        o = self.norm(o)
        o = o if self.z is None else o * F.silu(heads(z[0], self.heads))
        return self.out(joined(self.fuse(o, keep)))
