"""The one attention equation. It names no variant and branches on none: parts fill in its hooks.

    a_ij = softmax_j( scale · <rotate(q_i, i), rotate(k_j, j)> / sqrt(d) + bias(q, k, i, j) )   over j allowed and kept
    out  = fuse( a · v )

Shapes: B texts, T tokens (Tq of queries, Tk of keys), H heads, d width of a head, D = width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.parts.fusions import Fusion
from headtohead.parts.norms import Norm
from headtohead.parts.positions import LayerHooks
from headtohead.spec import Dims, Spec, knob


class Biases(Spec):
    """Which of the four projections learn a bias."""

    q: bool = knob(default=False, help="queries")
    k: bool = knob(
        default=False, help="keys; softmax cancels it, so it changes nothing unless keys are turned or normed"
    )
    v: bool = knob(default=False, help="values")
    out: bool = knob(default=True, help="the output projection")


@dataclass(frozen=True)
class Packing:
    """Real tokens laid end to end (N, D), so that layers which work at each token alone do no work on padding."""

    rows: Tensor  # (N,) their places among all B·T
    back: Tensor  # (B·T,) which of the N stands at each place; at padding some other, which masks hide
    keep: Tensor  # (B, T)

    @classmethod
    def of(cls, keep: Tensor) -> Packing | None:
        """None where nothing is padding."""
        flat = keep.flatten()
        rows = flat.nonzero()[:, 0]
        if len(rows) in (0, len(flat)):
            return None
        return cls(rows, (flat.cumsum(dim=0) - 1).clamp_(min=0), keep)

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, D) → (N, D)."""
        return _Pack.apply(x.flatten(0, 1), self)

    def spread(self, x: Tensor) -> Tensor:
        """(N, D) → (B, T, D); what stands at padding must not matter, and gets no gradient."""
        return _Spread.apply(x, self).unflatten(0, self.keep.shape)


class _Pack(torch.autograd.Function):
    """Take the real rows. Autograd's own gradient would add rows up, as if one could be taken twice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packing: Packing) -> Tensor:
        ctx.packing = packing
        return x.index_select(0, packing.rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        spread = grad.new_zeros(len(ctx.packing.back), grad.shape[1])
        return spread.index_copy_(0, ctx.packing.rows, grad), None


class _Spread(torch.autograd.Function):
    """Put every row back in its place. Padding repeats some row instead of being zero: one pass less."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packing: Packing) -> Tensor:
        ctx.packing = packing
        return x.index_select(0, packing.back)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.packing.rows), None


@dataclass(frozen=True)
class Reach:
    """Who may look at whom in one forward pass; the same for every layer."""

    i: Tensor  # (B|1, 1, Tq, 1) positions of the queries
    j: Tensor  # (B|1, 1, 1, Tk) positions of the keys
    allowed: Tensor  # (B|1, 1, Tq, Tk); a row that allows nothing is all true here and zeroed by `some`
    some: Tensor | None  # (B|1, 1, Tq, 1) whether the row allows anything; none: every row does
    mask: Tensor  # `allowed` as numbers to add: 0 or −inf
    keep: Tensor | None  # (B, Tq) true at real tokens
    packing: Packing | None = None  # where tokens stand if they come without their padding

    @classmethod
    def of(cls, allowed: Tensor, i: Tensor, j: Tensor, keep: Tensor | None, packing: Packing | None = None) -> Reach:
        some = allowed.any(dim=-1, keepdim=True)
        allowed = allowed | ~some
        mask = torch.zeros_like(allowed, dtype=torch.get_default_dtype()).masked_fill_(~allowed, -torch.inf)
        return cls(i, j, allowed, None if bool(some.all()) else some, mask, keep, packing)


@dataclass
class LayerCache:
    """Keys and values of one layer so far."""

    k: Tensor | None = None  # (B, Hkv, Tk, d), turned already
    v: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v


@dataclass
class Cache:
    """What a language model remembers between calls: keys, values, and where they stand."""

    layers: list[LayerCache] = field(default_factory=list)
    positions: Tensor | None = None  # (B|1, Tk)
    keep: Tensor | None = None  # (B, Tk)

    @property
    def length(self) -> int:
        return 0 if self.positions is None else self.positions.shape[1]


class Attention(nn.Module):
    """Multi-head, grouped-query (1 < kv_heads < heads) or multi-query (kv_heads = 1) attention."""

    path: Literal["sdpa", "explicit"] = "sdpa"  # `taps.explicit` switches it; only the explicit path has weights to see

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
        self.weights = nn.Identity()  # the tap that attention maps are read from
        with seeded("fuse"):
            self.fuse = fusion.build(dims, layer)
        self.out = nn.Linear(H * d, dims.width, bias=biases.out)
        self.out.into_residual = True  # type: ignore[assignment]
        self.head_width, self.dropout = d, dropout

    def forward(self, x: Tensor, reach: Reach, position: LayerHooks, cache: LayerCache | None = None) -> Tensor:
        q, k, v = (self._split(part) for part in self._projected(x, reach))
        q = position.rotate(self.q_norm(q), reach.i)  # (B, H, Tq, d)
        k = position.rotate(self.k_norm(k), reach.i)  # (B, Hkv, Tq, d)
        if cache is not None:
            k, v = cache.extend(k, v)  # (B, Hkv, Tk, d)
        group = q.shape[1] // k.shape[1]
        if group > 1:  # each key and value head serves `group` query heads
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        bias = position.bias(q, k, reach.i, reach.j)
        scale = position.scale / math.sqrt(self.head_width)
        attend = self._explicit if self.path == "explicit" else self._sdpa
        o = attend(q, k, v, bias, reach, scale)  # (B, H, Tq, d)
        o = self.fuse(o if reach.some is None else o * reach.some, reach.keep)
        o = o.transpose(1, 2).flatten(2)
        return self.out(o if reach.packing is None else reach.packing.pack(o))  # (B, Tq, D), or packed as x was

    def _projected(self, x: Tensor, reach: Reach) -> tuple[Tensor, ...]:
        """q, k and v (B, T, heads · d) by one product: three of a third the size take longer."""
        layers = (self.q, self.k, self.v)
        if any(_is_watched(layer) for layer in layers):  # by a tap, or replaced: each must be called itself
            together = torch.cat([layer(x) for layer in layers], dim=-1)
        else:
            weight, bias = torch.cat([layer.weight for layer in layers]), None
            if any(layer.bias is not None for layer in layers):
                bias = torch.cat([_bias_or_zeros(layer) for layer in layers])
            together = F.linear(x, weight, bias)
        if reach.packing is not None:
            together = reach.packing.spread(together)
        return together.split([layer.out_features for layer in layers], dim=-1)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def _explicit(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, reach: Reach, scale: float) -> Tensor:
        scores = scale * (q @ k.transpose(-1, -2))
        if bias is not None:
            scores = scores + bias
        a = scores.masked_fill(~reach.allowed, -torch.inf).softmax(dim=-1)
        return F.dropout(self.weights(a), self.dropout, self.training) @ v

    def _sdpa(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, reach: Reach, scale: float) -> Tensor:
        mask = reach.mask.to(q.dtype) if bias is None else bias.masked_fill(~reach.allowed, -torch.inf).to(q.dtype)
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)


def _bias_or_zeros(layer: nn.Linear) -> Tensor:
    return layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias


def _is_watched(layer: nn.Module) -> bool:
    return type(layer) is not nn.Linear or bool(layer._forward_hooks or layer._forward_pre_hooks)
