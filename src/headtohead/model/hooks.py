"""Read the output of any named module of a model while it runs, with forward hooks."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.errors import InputError, nearest
from headtohead.parts.mixers import Attend

WEIGHTS = "*attention.weights"  # the attention weights of every layer, (B, H, Tq, Tk)


@contextmanager
def explicit(model: nn.Module) -> Iterator[None]:
    """Make attention compute its scores and softmax step by step, so that its weights can be read."""
    with _explicit([m for m in model.modules() if isinstance(m, Attend)]):
        yield


@contextmanager
def _explicit(layers: list[Attend]) -> Iterator[None]:
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
    """Collect the weights of fused attention, (B, H, Tq, Tk) per call. The fused kernel does not return them, so each
    layer attends a second time with the identity matrix as values, which yields the weights."""
    layers = {name: m for name, m in model.named_modules() if isinstance(m, Attend)}
    seen: dict[str, list[Tensor]] = {name: [] for name in layers}

    def recording(layer: Attend, name: str) -> Callable[..., Tensor]:
        attend = layer._sdpa

        def attend_twice(q: Tensor, k: Tensor, v: Tensor, *others: Any) -> Tensor:
            identity = torch.eye(k.shape[2], dtype=v.dtype, device=v.device).expand(*k.shape[:2], -1, -1)
            seen[name].append(attend(q, k, identity, *others))
            return attend(q, k, v, *others)

        return attend_twice

    for name, layer in layers.items():
        layer._sdpa = recording(layer, name)  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        for layer in layers.values():
            del layer._sdpa


def layers_with_weights(model: nn.Module) -> list[tuple[int, int]]:
    """Return (number of the layer, number of its block) for the layers that compute attention weights. Layers are
    counted in the order in which they are applied, so a block that is applied twice is two layers."""
    trunk: Any = model.trunk
    named = dict(model.named_modules())
    return [(layer, n) for layer, (n, _) in enumerate(trunk.route) if _weights_of(n) in named]


def in_order(model: nn.Module, seen: dict[str, list[Any]]) -> list[Any]:
    """Return what was captured at `WEIGHTS` in one call of the model, one value for each of `layers_with_weights`."""
    calls = {name: iter(values) for name, values in seen.items()}
    return [next(calls[_weights_of(n)]) for _, n in layers_with_weights(model)]


def _weights_of(block: int) -> str:
    return f"trunk.blocks.{block}.attention.weights"


def output(_inputs: tuple[Any, ...], out: Any) -> Any:
    return out


@contextmanager
def capture(
    model: nn.Module, *points: str, read: Callable[[tuple[Any, ...], Any], Any] = output
) -> Iterator[dict[str, list[Any]]]:
    """Collect the outputs of named modules, one value per call: `with capture(model, WEIGHTS) as seen: model(ids)`.

    Points are names as in `model.named_modules()`; * matches anything. The tensors keep their computation graph;
    detach them to store them. Layers whose attention weights are captured use the explicit path inside the block.
    `read(inputs, output)` chooses what to collect of each call: a number in place of a large tensor, or an input.
    """
    names = dict(model.named_modules())
    chosen: dict[str, nn.Module] = {}
    for point in points:
        matches = fnmatch.filter(names, point)
        if not matches:
            raise InputError(f"the model has no point '{point}': {nearest(point, (n for n in names if n))}")
        chosen |= {name: names[name] for name in matches}
    seen: dict[str, list[Any]] = {name: [] for name in chosen}
    hooks = [
        module.register_forward_hook(lambda _m, inputs, out, name=name: seen[name].append(read(inputs, out)))
        for name, module in chosen.items()
    ]
    layers = [m for m in names.values() if isinstance(m, Attend) and m.weights in chosen.values()]
    try:
        with _explicit(layers):
            yield seen
    finally:
        for hook in hooks:
            hook.remove()
