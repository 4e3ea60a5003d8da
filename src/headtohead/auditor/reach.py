"""Which tokens a token may depend on, by what the parts of a model claim."""

from __future__ import annotations

import torch
from torch import Tensor

from headtohead.model.spec import ModelSpec
from headtohead.parts import Layer


def reach(spec: ModelSpec, length: int) -> Tensor:
    """Return (T, T): true where a token at i may depend on a token at j through all layers together."""
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    seen = (i >= j) & (i - j <= spec.embedding.before)
    for _ in range(spec.loops.times):
        for n in range(spec.layers):
            seen = _through(reach_of_layer(spec.layer(n), length), seen)
    return seen


def reach_of_layer(layer: Layer, length: int) -> Tensor:
    """Return (T, T): true where a token at i may depend on a token at j through one layer. A token depends on itself,
    through the residual connection."""
    i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
    own = i == j
    a, b, c, d = ((i >= j) & (i - j <= layer.convolution.before(site)) for site in ("A", "B", "C", "D"))
    b = b if "convolution" in layer.mixer.uses else own
    mixed = _through(layer.mixer.allowed(layer.pattern, i, j).expand(length, length), b) | b  # of keys; of queries
    after_mixer = own | _through(mixed, a)
    return _through(own | _through(d, c), after_mixer)


def _through(later: Tensor, earlier: Tensor) -> Tensor:
    """Combine two steps: i depends on j if it depends in the later step on a token that depends on j in the earlier."""
    return (later.double() @ earlier.double()) > 0
