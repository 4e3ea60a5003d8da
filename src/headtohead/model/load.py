"""How evenly the tokens of an evaluation are spread over the experts of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from headtohead.parts.feedforwards import ExpertLayers


class Load:
    """The tokens of each expert, layer by layer, summed over forward passes."""

    def __init__(self) -> None:
        self.layers: dict[str, Tensor] = {}

    def add(self, name: str, tokens: Tensor) -> None:
        self.layers[name] = self.layers[name] + tokens if name in self.layers else tokens

    @property
    def values(self) -> dict[str, Any]:
        """The shares of each layer's experts, and what the busiest of all computes: 1 for a balanced load.
        Empty without experts."""
        if not self.layers:
            return {}
        shares = [(tokens / tokens.sum().clamp(min=1)).tolist() for tokens in self.layers.values()]
        return {"busiest_expert": max(len(layer) * max(layer) for layer in shares), "experts": shares}


@contextmanager
def expert_load(model: nn.Module) -> Iterator[Load]:
    """Measure the load of the experts in every forward pass inside this context."""
    load = Load()

    def count(name: str) -> Any:
        return lambda module, _inputs, _out: load.add(name, module.tokens)

    layers = [(name, module) for name, module in model.named_modules() if isinstance(module, ExpertLayers)]
    hooks = [module.register_forward_hook(count(name)) for name, module in layers]
    try:
        yield load
    finally:
        for hook in hooks:
            hook.remove()
