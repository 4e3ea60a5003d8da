"""The attention equation, one for all mixers that compute weights. Parts fill in its hooks; no code here depends on
which part is used.

    a_ij = weigh_j( scores( scale · <q_i, k_j> / sqrt(d) ) + bias(q, k, i, j) )   over j allowed and kept
    o_i  = Σ_j mix(a)_ij · v_j

Shapes: B texts, T tokens (Tq queries, Tk keys), H heads, d width of a head.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.parts.layer import Layer
from headtohead.parts.mixers.mixer import MixerHooks
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.dropout import dropout
from headtohead.parts.sequence.mask import Mask


class Attend(MixerHooks):
    """Base of mixers that attend: `attend` weighs values by the scores of queries and keys."""

    path: Literal["sdpa", "explicit"] = "sdpa"  # set by `hooks.explicit`; only the explicit path computes weights

    def __init__(self, layer: Layer, width: int) -> None:
        super().__init__()
        self.root, self.dropout = math.sqrt(width), layer.dropout
        self.scores = layer.scores.build(layer)
        self.weighting = layer.weighting.build(layer)
        self.weights = nn.Identity()  # attention maps are read here, by a forward hook
        self.can_fuse = self.scores.neutral and self.weighting.neutral

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, position: LayerHooks) -> Tensor:
        """Return o (B, H, Tq, d) for rotated q (B, H, Tq, d), k and v (B, Hkv, Tk, d). A query that may see no key
        gets zeros."""
        group = q.shape[1] // k.shape[1]
        if group > 1:  # each key and value head serves `group` query heads
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        bias = position.bias(q, k, mask.i, mask.j)
        scale = position.scale / self.root
        drops = self.training and self.dropout > 0  # torch has no fused CPU kernel with dropout
        fused = self.can_fuse and self.path == "sdpa" and not drops
        o = (self._sdpa if fused else self._explicit)(q, k, v, bias, mask, scale)
        return o if mask.sees_any is None else o * mask.sees_any

    def _explicit(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Mask, scale: float) -> Tensor:
        scores = self.scores(scale * (q @ k.transpose(-1, -2)))
        if bias is not None:
            scores = scores + bias
        a = self.weighting(scores.masked_fill(~mask.allowed, -torch.inf))
        a = self.weights(self.scores.mix(a))
        return (dropout(a, self.dropout) if self.training and self.dropout else a) @ v

    def _sdpa(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Mask, scale: float) -> Tensor:
        additive = mask.additive if bias is None else bias.masked_fill(~mask.allowed, -torch.inf)
        additive = None if additive is None else additive.to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=additive, scale=scale)
