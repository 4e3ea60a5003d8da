"""Copy a trained model for fast generation, without nn.Module's attribute lookup and hooks.

One token through a small model takes about a hundred small operations, and nn.Module's overhead takes longer than they
do. The copy runs the same `forward` code, including that of a user's parts, on the same weights: each module becomes an
object of a subclass of its class whose weights and submodules are plain attributes and whose call is its `forward`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def lean(model: M) -> M:
    """Return a copy of the model that can only be called, or the model itself if it has hooks or is in training mode.
    The copy shares the weights: it sees changes in place, but not tensors that replace them."""
    return model if any(map(_must_be_called, model.modules())) else _copy(model, {})  # type: ignore[return-value]


def _copy(module: nn.Module, copies: dict[int, nn.Module]) -> nn.Module:
    if id(module) not in copies:
        kind: Any = type(module)
        copy = object.__new__(_lean_class(kind))
        copies[id(module)] = copy  # a shared module has one copy
        children = {name: child if child is None else _copy(child, copies) for name, child in module._modules.items()}
        weights = {name: w if w is None else w.detach() for name, w in module._parameters.items()}
        vars(copy).update(vars(module), _modules=children)
        vars(copy).update({**weights, **module._buffers, **children})
    return copies[id(module)]


@cache
def _lean_class(original: Any) -> type[nn.Module]:
    return type(original.__name__, (original,), {"__call__": original.forward})


def _must_be_called(module: nn.Module) -> bool:
    """Whether calling the module does more than its class's `forward` in evaluation mode."""
    changed_call = "forward" in vars(module) or type(module).__call__ is not nn.Module.__call__
    return module.training or changed_call or bool(module._forward_hooks or module._forward_pre_hooks)
