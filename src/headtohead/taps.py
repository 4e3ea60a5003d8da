"""Look at any named point of a model while it runs, with forward hooks; nothing is threaded through the layers."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.attention import Attention
from headtohead.errors import InputError, nearest

WEIGHTS = "*attention.weights"  # the attention weights of every layer, (B, H, Tq, Tk)


@contextmanager
def explicit(model: nn.Module) -> Iterator[None]:
    """Compute attention with scores and softmax written out, so that its weights exist."""
    with _explicit([m for m in model.modules() if isinstance(m, Attention)]):
        yield


@contextmanager
def _explicit(layers: list[Attention]) -> Iterator[None]:
    before = [layer.path for layer in layers]
    for layer in layers:
        layer.path = "explicit"
    try:
        yield
    finally:
        for layer, path in zip(layers, before, strict=True):
            layer.path = path


@contextmanager
def sdpa_weights(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """The weights that the fast path uses, (B, H, Tq, Tk) a call. It never shows them; but weights times the identity
    are the weights, so each layer attends once more with one value a key, all different."""
    layers = {name: m for name, m in model.named_modules() if isinstance(m, Attention)}
    seen: dict[str, list[Tensor]] = {name: [] for name in layers}

    def watched(layer: Attention, name: str) -> Callable[..., Tensor]:
        attend = layer._sdpa

        def attend_twice(q: Tensor, k: Tensor, v: Tensor, *others: Any) -> Tensor:
            each = torch.eye(k.shape[2], dtype=v.dtype, device=v.device).expand(*k.shape[:2], -1, -1)
            seen[name].append(attend(q, k, each, *others))
            return attend(q, k, v, *others)

        return attend_twice

    for name, layer in layers.items():
        layer._sdpa = watched(layer, name)  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        for layer in layers.values():
            del layer._sdpa


@contextmanager
def capture(model: nn.Module, *points: str) -> Iterator[dict[str, list[Tensor]]]:
    """Collect what passes the named modules, one tensor a call: `with capture(model, WEIGHTS) as seen: model(ids)`.

    Points are names as in `model.named_modules()`, with * for anything. Tensors are as the model computed them, with
    their gradients; detach them to keep them. Layers whose weights are looked at take the explicit path meanwhile.
    """
    names = dict(model.named_modules())
    chosen: dict[str, nn.Module] = {}
    for point in points:
        found = fnmatch.filter(names, point)
        if not found:
            raise InputError(f"the model has no point '{point}': {nearest(point, (n for n in names if n))}")
        chosen |= {name: names[name] for name in found}
    seen: dict[str, list[Tensor]] = {name: [] for name in chosen}
    hooks = [
        module.register_forward_hook(lambda _m, _args, out, name=name: seen[name].append(out))
        for name, module in chosen.items()
    ]
    layers = [m for m in names.values() if isinstance(m, Attention) and m.weights in chosen.values()]
    try:
        with _explicit(layers):
            yield seen
    finally:
        for hook in hooks:
            hook.remove()
