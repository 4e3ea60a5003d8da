"""Look at any named point of a model while it runs, with forward hooks; nothing is threaded through the layers."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from contextlib import contextmanager

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
