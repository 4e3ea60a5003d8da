"""Linear attention: softmax replaced by a product of positive features, so that the past fits into one matrix."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.parts.layer import Layer
from headtohead.parts.mixers.mixer import MixerHooks
from headtohead.parts.mixers.recurrent import STATE, Recurrent, RecurrentMixer, heads, joined, kept, scan
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob


class LinearAttention(RecurrentMixer):
    """Every query weighs the values of earlier tokens by products of positive features of queries and keys."""

    equation: ClassVar[str] = "o_i = Σ_j≤i (φ(q_i)·φ(k_j)) v_j / Σ_j≤i φ(q_i)·φ(k_j)"
    reference: ClassVar[str] = "Katharopoulos et al. 2020, Transformers are RNNs"
    uses: ClassVar[tuple[str, ...]] = ("kv_heads", "qk_norm", "fusion", "biases")

    features: Literal["elu", "relu", "exp"] = knob(
        default="elu", help="φ: elu(x) + 1, relu(x), or exp of x and of −x, each after a softmax over the features"
    )

    @property
    def dense(self) -> bool:
        return self.features != "relu"

    def build(self, layer: Layer) -> MixerHooks:
        return LinearHeads(layer, self)


class LinearHeads(Recurrent):
    def __init__(self, layer: Layer, spec: LinearAttention) -> None:
        super().__init__(layer)
        d, H, kv_heads, biases = layer.dims.head_width, layer.dims.heads, layer.kv_heads, layer.biases
        self.q = nn.Linear(layer.dims.width, H * d, bias=biases.q)
        self.k = nn.Linear(layer.dims.width, kv_heads * d, bias=biases.k)
        self.v = nn.Linear(layer.dims.width, kv_heads * d, bias=biases.v)
        with layer.seeded("qk_norm"):
            self.q_norm, self.k_norm = layer.qk_norm.build(d), layer.qk_norm.build(d)
        with layer.seeded("fuse"):
            self.fuse = layer.fusion.build(layer.dims, layer.n)
        self.out = nn.Linear(H * d, layer.dims.width, bias=biases.out)
        self.out.into_residual = True  # type: ignore[assignment]
        self.heads, self.kv_heads, self.spec = H, kv_heads, spec

    def read(self, x: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        q = self._features(self.q_norm(heads(self.q(x), self.heads)))
        k = kept(self._features(self.k_norm(heads(self.k(x), self.kv_heads))), keep)
        v = heads(self.v(x), self.kv_heads)
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)  # the last column sums the weights
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, dim=1) for y in (k, v))
        o, state = scan(q, k, v, state=None if cache is None else cache.states.get(STATE))
        if cache is not None:
            cache.states[STATE] = state
        o = o[..., :-1] / o[..., -1:].clamp(min=1e-6)
        return self.out(joined(self.fuse(o, keep)))

    def _features(self, x: Tensor) -> Tensor:
        if self.spec.features == "elu":
            return F.elu(x) + 1
        return x.relu() if self.spec.features == "relu" else torch.cat([x, -x], dim=-1).softmax(dim=-1)
