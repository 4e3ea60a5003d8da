"""A trained model without the machinery of training, for generation: one token through a small model is a hundred tiny
operations, and looking up weights and hooks takes longer than they do.

The copy runs the very code of the original, parts of a user's own included, on the very weights: each module becomes an
object of a subclass of its own class whose weights and parts are plain attributes and whose call is its `forward`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def lean(model: M) -> M:
    """The model, to be called and nothing else; itself where something watches it (a tap's hook) or it still trains.
    It sees weights that are changed in place afterwards, and not those that are replaced."""
    return model if any(map(_is_watched, model.modules())) else _copy(model, {})  # type: ignore[return-value]


def _copy(module: nn.Module, made: dict[int, nn.Module]) -> nn.Module:
    if id(module) not in made:
        kind: Any = type(module)
        copy = object.__new__(_lean_class(kind))
        made[id(module)] = copy  # a module that stands in two places is one module
        parts = {name: part if part is None else _copy(part, made) for name, part in module._modules.items()}
        weights = {name: w if w is None else w.detach() for name, w in module._parameters.items()}
        vars(copy).update(vars(module), _modules=parts)
        vars(copy).update({**weights, **module._buffers, **parts})
    return made[id(module)]


@cache
def _lean_class(original: Any) -> type[nn.Module]:
    return type(original.__name__, (original,), {"__call__": original.forward})


def _is_watched(module: nn.Module) -> bool:
    own_call = "forward" in vars(module) or type(module).__call__ is not nn.Module.__call__
    return module.training or own_call or bool(module._forward_hooks or module._forward_pre_hooks)
