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
from typing import Literal

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
class Reach:
    """Who may look at whom in one forward pass; the same for every layer."""

    i: Tensor  # (B|1, 1, Tq, 1) positions of the queries
    j: Tensor  # (B|1, 1, 1, Tk) positions of the keys
    allowed: Tensor  # (B|1, 1, Tq, Tk); a row that allows nothing is all true here and zeroed by `some`
    some: Tensor  # (B|1, 1, Tq, 1) whether the row allows anything
    keep: Tensor | None  # (B, Tq) true at real tokens

    @classmethod
    def of(cls, allowed: Tensor, i: Tensor, j: Tensor, keep: Tensor | None) -> Reach:
        some = allowed.any(dim=-1, keepdim=True)
        return cls(i, j, allowed | ~some, some, keep)


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
        q = position.rotate(self.q_norm(self._split(self.q(x))), reach.i)  # (B, H, Tq, d)
        k = position.rotate(self.k_norm(self._split(self.k(x))), reach.i)  # (B, Hkv, Tq, d)
        v = self._split(self.v(x))
        if cache is not None:
            k, v = cache.extend(k, v)  # (B, Hkv, Tk, d)
        group = q.shape[1] // k.shape[1]
        if group > 1:  # each key and value head serves `group` query heads
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        bias = position.bias(q, k, reach.i, reach.j)
        scale = position.scale / math.sqrt(self.head_width)
        attend = self._explicit if self.path == "explicit" else self._sdpa
        o = attend(q, k, v, bias, reach.allowed, scale) * reach.some  # (B, H, Tq, d)
        o = self.fuse(o, reach.keep)
        return self.out(o.transpose(1, 2).flatten(2))  # (B, Tq, D)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_width)).transpose(1, 2)

    def _explicit(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, allowed: Tensor, scale: float) -> Tensor:
        scores = scale * (q @ k.transpose(-1, -2))
        if bias is not None:
            scores = scores + bias
        a = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
        return F.dropout(self.weights(a), self.dropout, self.training) @ v

    def _sdpa(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, allowed: Tensor, scale: float) -> Tensor:
        mask = allowed if bias is None else bias.masked_fill(~allowed, -torch.inf).to(q.dtype)
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)
