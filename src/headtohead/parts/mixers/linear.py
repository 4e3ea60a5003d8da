"""Linear attention: softmax replaced by a product of positive features, so that the past fits into one matrix."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from headtohead.parts.layer import Layer
from headtohead.parts.mixers.mixer import MixerHooks
from headtohead.parts.mixers.recurrent import STATE, RecurrentHeads, RecurrentMixer, joined, kept, scan
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import knob

# Smallest sum that is divided by. ReLU lets single features be as small as chance has it, and their gradients would be
# as large; the other features shrink together with their gradients.
FLOORS = {"elu": 1e-12, "relu": 1e-6, "exp": 1e-12}


class LinearAttention(RecurrentMixer):
    """Every query weighs the values of earlier tokens by products of positive features of queries and keys."""

    equation: ClassVar[str] = "o_i = Σ_j≤i (φ(q_i)·φ(k_j)) v_j / Σ_j≤i φ(q_i)·φ(k_j)"
    reference: ClassVar[str] = (
        "Katharopoulos et al. 2020, Transformers are RNNs; features=exp: Zhang et al. 2024, The Hedgehog and the "
        "Porcupine"
    )
    uses: ClassVar[tuple[str, ...]] = ("kv_heads", "qk_norm", "fusion", "convolution", "biases")

    features: Literal["elu", "relu", "exp"] = knob(
        default="elu", help="φ: elu(x) + 1, relu(x), or a softmax over the features x and −x"
    )

    @property
    def dense(self) -> bool:
        return self.features != "relu"

    def build(self, layer: Layer) -> MixerHooks:
        return LinearHeads(layer, self)


class LinearHeads(RecurrentHeads):
    def __init__(self, layer: Layer, spec: LinearAttention) -> None:
        super().__init__(layer)
        self.spec, self.floor = spec, FLOORS[spec.features]

    def read(self, x: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        q, k, v = self.split(x)
        q, k = self._features(q), kept(self._features(k), keep)
        q = q / q.sum(dim=-1, keepdim=True).clamp(min=self.floor)  # the equation is the same for any scale of q
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)  # the last column sums the weights
        k, v = self.grouped(k), self.grouped(v)
        o, state = scan(q, k, v, state=None if cache is None else cache.states.get(STATE))
        if cache is not None:
            cache.states[STATE] = state
        o = o[..., :-1] / o[..., -1:].clamp(min=self.floor)
        return self.out(joined(self.fuse(o, keep)))

    def _features(self, x: Tensor) -> Tensor:
        if self.spec.features == "elu":
            return x.relu() + x.clamp(max=0).exp()  # elu(x) + 1 without rounding to zero
        return x.relu() if self.spec.features == "relu" else torch.cat([x, -x], dim=-1).softmax(dim=-1)
