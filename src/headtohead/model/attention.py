"""The attention equation, one for all variants. Parts fill in its hooks; no code here depends on which part is used.

    a_ij = softmax_j( scale · <rotate(q_i, i), rotate(k_j, j)> / sqrt(d) + bias(q, k, i, j) )   over j allowed and kept
    out  = fuse( a · v )

Shapes: B texts, T tokens (Tq queries, Tk keys), H heads, d width of a head, D = width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.model.cache import LayerCache
from headtohead.model.dropout import dropout
from headtohead.model.mask import Mask
from headtohead.model.spec import Biases
from headtohead.parts.fusions import Fusion
from headtohead.parts.norms import Norm
from headtohead.parts.positions import LayerHooks
from headtohead.spec import Dims


class Attention(nn.Module):
    """Multi-head, grouped-query (1 < kv_heads < heads) or multi-query (kv_heads = 1) attention."""

    path: Literal["sdpa", "explicit"] = "sdpa"  # set by `hooks.explicit`; only the explicit path computes weights

    def __init__(
        self,
        dims: Dims,
        layer: int,
        *,
        kv_heads: int,
        biases: Biases,
        qk_norm: Norm,
        fusion: Fusion,
        dropout: float,
        seeded: Callable[[str], AbstractContextManager[None]] = nullcontext,  # type: ignore[assignment]
    ) -> None:
        super().__init__()
        d, H = dims.head_width, dims.heads
        self.q = nn.Linear(dims.width, H * d, bias=biases.q)
        self.k = nn.Linear(dims.width, kv_heads * d, bias=biases.k)
        self.v = nn.Linear(dims.width, kv_heads * d, bias=biases.v)
        with seeded("qk_norm"):
            self.q_norm, self.k_norm = qk_norm.build(d), qk_norm.build(d)
        self.weights = nn.Identity()  # attention maps are read here, by a forward hook
        with seeded("fuse"):
            self.fuse = fusion.build(dims, layer)
        self.out = nn.Linear(H * d, dims.width, bias=biases.out)
        self.out.into_residual = True  # type: ignore[assignment]
        self.head_width, self.root, self.dropout = d, math.sqrt(d), dropout
        self.head_counts = [H, kv_heads, kv_heads]  # of q, k and v

    def forward(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None = None) -> Tensor:
        """Attend. x and the result have shape (B, Tq, D), packed (N, D), or (B, D) for one token of each text."""
        q, k, v = self._project(x, mask, cache)
        q = position.rotate(self.q_norm(q), mask.i)  # (B, H, Tq, d)
        k = position.rotate(self.k_norm(k), mask.i)  # (B, Hkv, Tq, d)
        if cache is not None:
            k, v = cache.extend(k, v)  # (B, Hkv, Tk, d)
        group = q.shape[1] // k.shape[1]
        if group > 1:  # each key and value head serves `group` query heads
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        bias = position.bias(q, k, mask.i, mask.j)
        scale = position.scale / self.root
        o = self._attend(q, k, v, bias, mask, scale)  # (B, H, Tq, d)
        o = self.fuse(o if mask.sees_any is None else o * mask.sees_any, mask.keep)
        if x.dim() == 3:
            return self.out(o.transpose(1, 2).flatten(2))  # (B, Tq, D)
        return self.out(o.flatten(1) if mask.packing is None else mask.packing.pack(o.transpose(1, 2).flatten(2)))

    def _project(self, x: Tensor, mask: Mask, cache: LayerCache | None) -> tuple[Tensor, ...]:
        """Return q (B, H, T, d), k and v (B, Hkv, T, d), computed by one product, which is faster than three."""
        layers = self.q, self.k, self.v
        if any(map(_has_hooks, layers)):
            qkv = torch.cat([layer(x) for layer in layers], dim=-1)
        elif cache is None or torch.is_grad_enabled():
            qkv = F.linear(x, *_joined(layers))
        else:
            cache.projection = cache.projection or _joined(layers)
            qkv = F.linear(x, *cache.projection)
        if mask.packing is not None:
            qkv = mask.packing.spread(qkv)
        if qkv.dim() == 2:
            heads = qkv.view(len(x), -1, 1, self.head_width)
        else:
            heads = qkv.view(*qkv.shape[:2], -1, self.head_width).transpose(1, 2)
        return heads.split_with_sizes(self.head_counts, 1)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Mask, scale: float) -> Tensor:
        drops = self.training and self.dropout > 0  # torch has no fused CPU kernel with dropout
        return (self._explicit if self.path == "explicit" or drops else self._sdpa)(q, k, v, bias, mask, scale)

    def _explicit(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Mask, scale: float) -> Tensor:
        scores = scale * (q @ k.transpose(-1, -2))
        if bias is not None:
            scores = scores + bias
        a = scores.masked_fill(~mask.allowed, -torch.inf).softmax(dim=-1)
        a = self.weights(a)
        return (dropout(a, self.dropout) if self.training and self.dropout else a) @ v

    def _sdpa(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mask: Mask, scale: float) -> Tensor:
        additive = mask.additive if bias is None else bias.masked_fill(~mask.allowed, -torch.inf)
        additive = None if additive is None else additive.to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=additive, scale=scale)


def _joined(layers: tuple[nn.Linear, ...]) -> tuple[Tensor, Tensor | None]:
    """Concatenate weights and biases of several linear layers."""
    weight = torch.cat([layer.weight for layer in layers])
    if all(layer.bias is None for layer in layers):
        return weight, None
    return weight, torch.cat([_bias_or_zeros(layer) for layer in layers])


def _bias_or_zeros(layer: nn.Linear) -> Tensor:
    return layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias


def _has_hooks(layer: nn.Module) -> bool:
    """Whether the layer has hooks or was replaced, so that the layer itself must be called."""
    return type(layer).forward is not nn.Linear.forward or bool(layer._forward_hooks or layer._forward_pre_hooks)
