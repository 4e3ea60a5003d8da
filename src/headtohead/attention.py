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

from headtohead.dropout import dropout
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
    mask: Tensor | None  # `allowed` as numbers to add: 0 or −inf; none: nothing to add
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
    """Keys and values of one layer so far; and the projection to them, which does not change while they are kept."""

    k: Tensor | None = None  # (B, Hkv, Tk, d), turned already
    v: Tensor | None = None
    projection: tuple[Tensor, Tensor | None] | None = None  # weight and bias of q, k and v side by side
    room: tuple[Tensor, Tensor] | None = None  # (B, Hkv, Tk and more, d): new ones are written behind the old ones

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.k is None or self.v is None:
            self.k, self.v = k, v
        elif torch.is_grad_enabled():
            self.k, self.v = torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2)
        else:
            old, more = self.k.size(2), k.size(2)
            now = old + more
            if self.room is None or self.room[0].size(2) < now:
                self.room = _with_room(self.k, 2 * now), _with_room(self.v, 2 * now)
            keys, values = self.room
            keys.narrow(2, old, more).copy_(k)
            values.narrow(2, old, more).copy_(v)
            self.k, self.v = keys.narrow(2, 0, now), values.narrow(2, 0, now)
        return self.k, self.v

    def rows(self, count: int) -> LayerCache:
        assert self.k is not None
        assert self.v is not None
        return LayerCache(self.k.expand(count, -1, -1, -1), self.v.expand(count, -1, -1, -1), self.projection)


def _with_room(x: Tensor, length: int) -> Tensor:
    made = x.new_empty(*x.shape[:2], length, x.shape[3])
    made.narrow(2, 0, x.shape[2]).copy_(x)
    return made


@dataclass(frozen=True)
class Ahead:
    """Who may look at whom at every place of the block, worked out once: token by token it takes longer than the
    attention itself."""

    j: Tensor  # (1, 1, 1, block)
    i: tuple[Tensor, ...]  # block times (1, 1, 1, 1)
    allowed: tuple[Tensor, ...]  # block times (1, 1, 1, block)
    whole: list[bool]  # whether the token at a place sees all up to itself

    @classmethod
    def of(cls, places: Tensor, allowed: Tensor) -> Ahead:
        """Of places (block,) and what is allowed there (1, 1, block, block)."""
        last = allowed[0, 0] | torch.ones_like(allowed[0, 0]).triu(1)
        j = places.view(1, 1, 1, -1)
        rows = allowed.expand(1, 1, len(places), len(places)).permute(2, 0, 1, 3)[:, None].unbind()
        return cls(j, places.view(-1, 1, 1, 1, 1).unbind(), rows, last.all(dim=-1).tolist())

    def reach(self, place: int) -> Reach:
        i, j, allowed = self.i[place], self.j.narrow(3, 0, place + 1), self.allowed[place].narrow(3, 0, place + 1)
        return Reach(i, j, allowed, None, None, None) if self.whole[place] else Reach.of(allowed, i, j, None)


@dataclass
class Cache:
    """What a language model remembers between calls: keys, values, and where they stand."""

    layers: list[LayerCache] = field(default_factory=list)
    positions: Tensor | None = None  # (B|1, Tk)
    keep: Tensor | None = None  # (B, Tk)
    ahead: Ahead | None = None  # while every token stands at its own place

    @property
    def length(self) -> int:
        return 0 if self.positions is None else self.positions.shape[1]

    def rows(self, count: int) -> Cache:
        """The one text in it, so many times: to be gone on with in several ways."""
        return Cache([layer.rows(count) for layer in self.layers], self.positions, None, self.ahead)


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
        self.head_width, self.root, self.dropout = d, math.sqrt(d), dropout
        self.each = [H, kv_heads, kv_heads]  # heads of q, k and v

    def forward(self, x: Tensor, reach: Reach, position: LayerHooks, cache: LayerCache | None = None) -> Tensor:
        """x and the result are (B, Tq, D); packed (N, D); or one token of each text (B, D)."""
        q, k, v = self._projected(x, reach, cache)
        q = position.rotate(self.q_norm(q), reach.i)  # (B, H, Tq, d)
        k = position.rotate(self.k_norm(k), reach.i)  # (B, Hkv, Tq, d)
        if cache is not None:
            k, v = cache.extend(k, v)  # (B, Hkv, Tk, d)
        group = q.shape[1] // k.shape[1]
        if group > 1:  # each key and value head serves `group` query heads
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        bias = position.bias(q, k, reach.i, reach.j)
        scale = position.scale / self.root
        o = self._attend(q, k, v, bias, reach, scale)  # (B, H, Tq, d)
        o = self.fuse(o if reach.some is None else o * reach.some, reach.keep)
        if x.dim() == 3:
            return self.out(o.transpose(1, 2).flatten(2))  # (B, Tq, D)
        return self.out(o.flatten(1) if reach.packing is None else reach.packing.pack(o.transpose(1, 2).flatten(2)))

    def _projected(self, x: Tensor, reach: Reach, cache: LayerCache | None) -> tuple[Tensor, ...]:
        """q (B, H, T, d), k and v (B, Hkv, T, d) by one product: three of a third the size take longer."""
        layers = self.q, self.k, self.v
        if _is_watched(self.q) or _is_watched(self.k) or _is_watched(self.v):  # by a tap, or replaced: call each itself
            together = torch.cat([layer(x) for layer in layers], dim=-1)
        elif cache is None or torch.is_grad_enabled():
            together = F.linear(x, *_side_by_side(layers))
        else:
            cache.projection = cache.projection or _side_by_side(layers)
            together = F.linear(x, *cache.projection)
        if reach.packing is not None:
            together = reach.packing.spread(together)
        if together.dim() == 2:
            heads = together.view(len(x), -1, 1, self.head_width)
        else:
            heads = together.view(*together.shape[:2], -1, self.head_width).transpose(1, 2)
        return heads.split_with_sizes(self.each, 1)  # they stand one behind the other

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, reach: Reach, scale: float) -> Tensor:
        drops = self.training and self.dropout > 0  # torch's own has no fused kernel that does
        return (self._explicit if self.path == "explicit" or drops else self._sdpa)(q, k, v, bias, reach, scale)

    def _explicit(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, reach: Reach, scale: float) -> Tensor:
        scores = scale * (q @ k.transpose(-1, -2))
        if bias is not None:
            scores = scores + bias
        a = scores.masked_fill(~reach.allowed, -torch.inf).softmax(dim=-1)
        a = self.weights(a)
        return (dropout(a, self.dropout) if self.training and self.dropout else a) @ v

    def _sdpa(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, reach: Reach, scale: float) -> Tensor:
        mask = reach.mask if bias is None else bias.masked_fill(~reach.allowed, -torch.inf)
        mask = None if mask is None else mask.to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)


def _side_by_side(layers: tuple[nn.Linear, ...]) -> tuple[Tensor, Tensor | None]:
    weight = torch.cat([layer.weight for layer in layers])
    if all(layer.bias is None for layer in layers):
        return weight, None
    return weight, torch.cat([_bias_or_zeros(layer) for layer in layers])


def _bias_or_zeros(layer: nn.Linear) -> Tensor:
    return layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias


def _is_watched(layer: nn.Module) -> bool:
    return type(layer).forward is not nn.Linear.forward or bool(layer._forward_hooks or layer._forward_pre_hooks)
