"""Latent attention: keys and values of all heads are computed from one small vector for each token.

    c_j = norm(W_c x_j),  k_j = [U_k c_j, rotate(W_r x_j, j)],  v_j = U_v c_j,  q_i = [W_q x_i, rotate(W_s x_i, i)]

The cache keeps c and the rotated W_r x, which all heads share. In generation U_k and U_v are absorbed into queries and
outputs: <q, U_k c> = <U_kᵀ q, c> and Σ_j a_ij U_v c_j = U_v Σ_j a_ij c_j, so that keys and values are never computed.

Shapes: B texts, T tokens, H heads, d width of content and values, r width of the rotated part, C width of c.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.parts.layer import Layer
from headtohead.parts.mixers.attend import Attend
from headtohead.parts.mixers.mixer import Mixer, MixerHooks
from headtohead.parts.norms import Norm, RMSNorm
from headtohead.parts.positions import LayerHooks, PositionHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.memo import Memo
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob


class Latent(Mixer):
    """Attention whose keys and values come from a small vector, the only one that is kept in generation.

    Positions rotate an extra part of queries and keys, which is shared by the keys of all heads. A position that adds
    a bias to scores works as in Attention.
    """

    equation: ClassVar[str] = (
        "s_ij = scale · ( <q_i, U_k c_j> + <rotate(q'_i, i), rotate(k'_j, j)> ) / sqrt(d + r),  v_j = U_v c_j,  "
        "c_j = norm(W_c x_j)"
    )
    reference: ClassVar[str] = "DeepSeek-AI 2024, DeepSeek-V2, section 2.1; DeepSeek-V3, section 2.1.1"
    uses: ClassVar[tuple[str, ...]] = ("position", "pattern", "scores", "weighting", "gate", "fusion", "biases")
    maps: ClassVar[bool] = True

    width: int | None = knob(default=None, ge=1, help="numbers of c; none: 4 · d, at most half the model's width")
    rotated: int | None = knob(
        default=None, ge=2, help="r, width of the rotated part; none: half of d, rounded to even"
    )
    query_width: int | None = knob(
        default=None, ge=1, help="numbers of a small vector that queries are computed from; none: from x"
    )
    norm: Norm = knob(default=RMSNorm(), help="norm of the small vectors")

    def build(self, layer: Layer) -> MixerHooks:
        return LatentHeads(layer, self)


class LatentHeads(Attend):
    def __init__(self, layer: Layer, spec: Latent) -> None:
        D, H, d, biases = layer.dims.width, layer.dims.heads, layer.dims.head_width, layer.biases
        self.sizes = [d, spec.rotated or 2 * max(1, d // 4)]  # content and rotated part of q and k
        self.latent, self.heads = spec.width or max(1, min(4 * d, D // 2)), H
        super().__init__(layer, sum(self.sizes))
        self.outputs = layer.dims
        self.q_down: nn.Module = nn.Identity()
        self.q_norm: nn.Module = nn.Identity()
        reads = D
        with layer.seeded("norms"):
            if spec.query_width is not None:
                self.q_down = nn.Linear(D, spec.query_width, bias=biases.q)
                self.q_norm, reads = spec.norm.build(spec.query_width), spec.query_width
            self.norm = spec.norm.build(self.latent)
        self.q = nn.Linear(reads, H * sum(self.sizes), bias=biases.q and spec.query_width is None)
        self.down = nn.Linear(D, self.latent + self.sizes[1], bias=biases.k or biases.v)
        self.up = nn.Linear(self.latent, 2 * H * d, bias=False)
        self.turn = _rotation(layer, self.sizes[1])
        self.gate = layer.gate.build(layer)
        with layer.seeded("fuse"):
            self.fuse = layer.fusion.build(layer.dims, layer.n)
        self.out = nn.Linear(H * d, D, bias=biases.out)
        self.out.into_residual = True  # type: ignore[assignment]

    def forward(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None, memo: Memo) -> Tensor:
        q = mask.texts(self.q(self.q_norm(self.q_down(x)))).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, turned = q.split(self.sizes, dim=-1)  # (B, H, T, d), (B, H, T, r)
        turned = self.turn.rotate(turned, mask.i)
        c, shared = self.down(x).split([self.latent, self.sizes[1]], dim=-1)
        c, shared = (mask.texts(y)[:, None] for y in (self.norm(c), shared))  # (B, 1, T, C), (B, 1, T, r)
        shared = self.turn.rotate(shared, mask.i)
        continues = cache is not None and cache.k is not None
        if cache is not None:
            shared, c = cache.extend(shared, c)
        o = (self._absorbed if continues else self._expanded)(q, turned, c, shared, mask, position)  # (B, H, T, d)
        o = self.gate(self.fuse(o, mask.keep), x, mask)
        return self.out(mask.like(o.transpose(1, 2).flatten(2), x))

    def _expanded(
        self, q: Tensor, turned: Tensor, c: Tensor, shared: Tensor, mask: Mask, position: LayerHooks
    ) -> Tensor:
        """Attend to the keys and values of each head."""
        kv = self.up(c.squeeze(1)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = kv.chunk(2, dim=-1)
        k = torch.cat([k, shared.expand(-1, self.heads, -1, -1)], dim=-1)
        return self.attend(torch.cat([q, turned], dim=-1), k, v, mask, position)

    def _absorbed(
        self, q: Tensor, turned: Tensor, c: Tensor, shared: Tensor, mask: Mask, position: LayerHooks
    ) -> Tensor:
        """Attend to c, as if it were the key and the value of all heads."""
        up_k, up_v = self.up.weight.unflatten(0, (self.heads, -1)).chunk(2, dim=1)  # (H, d, C)
        o = self.attend(torch.cat([q @ up_k, turned], dim=-1), torch.cat([c, shared], dim=-1), c, mask, position)
        return o @ up_v.transpose(-1, -2)


def _rotation(layer: Layer, width: int) -> PositionHooks:
    """Build what rotates vectors of this width by their positions. It has no weights of its own: those of a position
    belong to the model."""
    position = layer.position
    if position.reads_vectors:
        raise InputError(
            f"{position} reads the keys of each head, which Latent attention does not keep: choose another position, "
            "such as Rope, Alibi or RelativeBias"
        )
    built = position.build(dataclasses.replace(layer.dims, head_width=width))
    if type(built).rotate is PositionHooks.rotate:
        return PositionHooks()
    if next(built.parameters(), None) is not None:
        raise InputError(f"{position} rotates with weights, which Latent attention cannot use: choose Rope")
    return built
