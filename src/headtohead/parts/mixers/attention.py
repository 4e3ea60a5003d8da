"""Multi-head attention, the default mixer, and the base of mixers with the same projections.

    a_ij = softmax_j( scale · <rotate(q_i, i), rotate(k_j, j)> / sqrt(d) + bias(q, k, i, j) )   over j allowed and kept
    out  = fuse( a · v )

Shapes: B texts, T tokens (Tq queries, Tk keys), H heads, d width of a head, D = width.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.parts.layer import Layer
from headtohead.parts.mixers.attend import Attend
from headtohead.parts.mixers.mixer import Mixer, MixerHooks
from headtohead.parts.positions import LayerHooks
from headtohead.parts.sequence.mask import Mask
from headtohead.parts.sequence.memo import Memo
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import Dims


class Attention(Mixer):
    """Every query weighs the values of all keys that it may see by softmax."""

    equation: ClassVar[str] = "o_i = Σ_j softmax_j( scale · <q_i, k_j> / sqrt(d) + bias_ij ) · v_j"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2"
    uses: ClassVar[tuple[str, ...]] = (
        *("position", "pattern", "kv_heads", "qk_norm", "scores", "weighting", "values", "gate", "fusion"),
        *("convolution", "biases"),
    )
    maps: ClassVar[bool] = True

    def build(self, layer: Layer) -> MixerHooks:
        return MultiHead(layer)


class Projected(Attend):
    """Base of mixers with one query for each head, and one key and value for each group of heads. Subclasses write
    `read`."""

    def __init__(self, layer: Layer, outputs: Dims | None = None) -> None:
        """`outputs` are the number and width of the heads that `read` returns, if they differ from those of queries."""
        d, H, kv_heads, biases = layer.dims.head_width, layer.dims.heads, layer.kv_heads, layer.biases
        super().__init__(layer, d)
        self.outputs = outputs or layer.dims
        self.q = nn.Linear(layer.dims.width, H * d, bias=biases.q)
        self.k = nn.Linear(layer.dims.width, kv_heads * d, bias=biases.k)
        self.v = nn.Linear(layer.dims.width, kv_heads * d, bias=biases.v)
        with layer.seeded("qk_norm"):
            self.q_norm, self.k_norm = layer.qk_norm.build(d), layer.qk_norm.build(d)
        self.convolve = layer.convolution.build(layer, "B", (H + 2 * kv_heads) * d)
        self.values = layer.values.build(layer)
        self.gate = layer.gate.build(dataclasses.replace(layer, dims=self.outputs))
        with layer.seeded("fuse"):
            self.fuse = layer.fusion.build(self.outputs, layer.n)
        self.out = nn.Linear(H * d, layer.dims.width, bias=biases.out)
        self.out.into_residual = True  # type: ignore[assignment]
        self.head_width = d
        self.head_counts = [H, kv_heads, kv_heads]  # of q, k and v

    @abc.abstractmethod
    def read(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, position: LayerHooks) -> Tensor:
        """Return the outputs of the heads for rotated q (B, H, Tq, d), k and v (B, Hkv, Tk, d)."""

    def forward(self, x: Tensor, mask: Mask, position: LayerHooks, cache: LayerCache | None, memo: Memo) -> Tensor:
        q, k, v = self._project(x, mask, cache)
        q = position.rotate(self.q_norm(q), mask.i)  # (B, H, Tq, d)
        k = position.rotate(self.k_norm(k), mask.i)  # (B, Hkv, Tq, d)
        if memo.values is None:
            memo.values = v
        v = self.values(v, memo)
        if cache is not None:
            k, v = cache.extend(k, v)  # (B, Hkv, Tk, d)
        o = self.read(q, k, v, mask, position)  # (B, H, Tq, d)
        o = self.gate(self.fuse(o, mask.keep), x, mask)
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
        qkv = self.convolve(qkv, mask, cache)
        if mask.packing is not None:
            qkv = mask.packing.spread(qkv)
        if qkv.dim() == 2:
            heads = qkv.view(len(x), -1, 1, self.head_width)
        else:
            heads = qkv.view(*qkv.shape[:2], -1, self.head_width).transpose(1, 2)
        return heads.split_with_sizes(self.head_counts, 1)


class MultiHead(Projected):
    """Multi-head, grouped-query (1 < kv_heads < heads) or multi-query (kv_heads = 1) attention."""

    def read(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, position: LayerHooks) -> Tensor:
        return self.attend(q, k, v, mask, position)


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
