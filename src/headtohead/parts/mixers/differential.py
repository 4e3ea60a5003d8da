"""Differential attention: the difference of two attention maps, which cancels weight that both give to every key."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.parts.layer import Layer
from headtohead.parts.mixers.attention import Projected
from headtohead.parts.mixers.mixer import Mixer, MixerHooks
from headtohead.parts.norms import Norm, RMSNorm
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.spec import knob


class Differential(Mixer):
    """Pairs of heads whose attention maps are subtracted, and whose values are shared.

    Of H heads, h and h + H/2 are a pair, with values twice as wide. Attention maps show both maps of each pair.
    """

    equation: ClassVar[str] = (
        "o_h = (1 − λ_0) · norm( (A_h − λ · A_(h+H/2)) [v_h, v_(h+H/2)] ) for h ≤ H/2,  A the maps of attention,  "
        "λ = exp(λ_q1·λ_k1) − exp(λ_q2·λ_k2) + λ_0,  λ_0 = 0.8 − 0.6·exp(−0.3·n) in layer n = 0, 1, …"
    )
    reference: ClassVar[str] = "Ye et al. 2024, Differential Transformer"
    uses: ClassVar[tuple[str, ...]] = (
        *("position", "pattern", "kv_heads", "qk_norm", "scores", "weighting", "values", "gate", "fusion"),
        *("convolution", "biases"),
    )
    maps: ClassVar[bool] = True

    start: float | None = knob(default=None, ge=0, lt=1, help="λ_0 of all layers; none: it grows with the layer")
    norm: Norm = knob(default=RMSNorm(eps=1e-5), help="norm of the output of each pair")

    def build(self, layer: Layer) -> MixerHooks:
        if layer.dims.heads % 2 or layer.kv_heads % 2:
            raise InputError(
                f"Differential attention pairs heads, and there are {layer.dims.heads} heads and {layer.kv_heads} "
                "kv_heads: set even numbers"
            )
        return DifferentialHeads(layer, self)


class DifferentialHeads(Projected):
    def __init__(self, layer: Layer, spec: Differential) -> None:
        dims = layer.dims
        super().__init__(layer, dataclasses.replace(dims, heads=dims.heads // 2, head_width=2 * dims.head_width))
        self.balance = Balance(
            dims.head_width, 0.8 - 0.6 * math.exp(-0.3 * layer.n) if spec.start is None else spec.start
        )
        with layer.seeded("norm"):
            self.norm = spec.norm.build(2 * dims.head_width)

    def read(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, position: LayerHooks) -> Tensor:
        v = torch.cat(v.chunk(2, dim=1), dim=-1)  # (B, Hkv/2, Tk, 2d)
        o = self.attend(q, k, torch.cat([v, v], dim=1), mask, position)  # (B, H, Tq, 2d)
        first, second = o.chunk(2, dim=1)  # (B, H/2, Tq, 2d)
        return (1 - self.balance.start) * self.norm(first - self.balance() * second)


class Balance(nn.Module):
    """λ: how much of the second map is subtracted. It is learned through products of vectors, so that it moves at the
    rate of the other weights."""

    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.start = start
        self.q1, self.k1, self.q2, self.k2 = (nn.Parameter(torch.empty(width)) for _ in range(4))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for vector in (self.q1, self.k1, self.q2, self.k2):
            nn.init.normal_(vector, std=0.1)

    def forward(self) -> Tensor:
        return (self.q1 @ self.k1).exp() - (self.q2 @ self.k2).exp() + self.start
