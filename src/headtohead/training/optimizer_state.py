"""The state of optimizers and averages as named tensors and JSON, for a checkpoint. Nothing is pickled.

A state may be nested: SOAP keeps lists of matrices, schedule-free optimizers keep sums in their groups. Tensors are
stored under names. Everything else is JSON, in which {"tensor": name} stands for a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn

from headtohead.errors import InputError


class Stateful(Protocol):
    """What changes during training: an optimizer, or an average of weights."""

    param_groups: list[dict[str, Any]]  # each with `params`
    state: Any  # parameter → name → value


@dataclass
class Saved:
    """A state by names such as trunk.tokens.weight/exp_avg."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)  # JSON

    def add(self, name: str, value: Any) -> None:
        packed = self._packed(name, value)
        if packed != {"tensor": name}:
            self.values[name] = packed

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return every name that was added, with its value. Tensors are copies."""
        inside = {name for packed in self.values.values() for name in _tensors_in(packed)}
        alone = ((name, tensor.clone()) for name, tensor in self.tensors.items() if name not in inside)
        return [*alone, *((name, self._unpacked(packed)) for name, packed in self.values.items())]

    def _packed(self, name: str, value: Any) -> Any:
        if isinstance(value, Tensor):
            self.tensors[name] = value
            return {"tensor": name}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(float(value))}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if type(value) in (list, tuple):
            return {type(value).__name__: [self._packed(f"{name}/{n}", v) for n, v in enumerate(value)]}
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return {"dict": {key: self._packed(f"{name}/{key}", v) for key, v in value.items()}}
        raise InputError(
            f"{name} is a {type(value).__name__}, which a checkpoint cannot hold: the state of an optimizer is made of "
            "tensors, numbers, texts, lists, tuples and dicts with texts as keys"
        )

    def _unpacked(self, packed: Any) -> Any:
        if not isinstance(packed, dict):
            return packed
        ((kind, content),) = packed.items()
        if kind == "tensor":
            return self.tensors[content].clone()
        if kind == "float":
            return float(content)
        if kind == "dict":
            return {key: self._unpacked(v) for key, v in content.items()}
        return {"list": list, "tuple": tuple}[kind](self._unpacked(v) for v in content)


def _tensors_in(packed: Any) -> Iterable[str]:
    """The names of the tensors that a packed value stands for."""
    if isinstance(packed, dict):
        ((kind, content),) = packed.items()
        if kind == "tensor":
            yield content
        elif kind != "float":
            for inner in content.values() if kind == "dict" else content:
                yield from _tensors_in(inner)


GROUP = "group "  # what the names of group settings begin with; no parameter's name has a space


def save(holders: Mapping[str, list[Stateful]], model: nn.Module) -> Saved:
    """Return the state of all holders. The names of each list of holders begin with its key."""
    names = {id(p): name for name, p in model.named_parameters()}
    saved = Saved()
    for prefix, several in holders.items():
        for n, holder in enumerate(several):
            for p, values in holder.state.items():
                for key, value in values.items():
                    saved.add(f"{prefix}{names[id(p)]}/{key}", value)
            for m, group in enumerate(holder.param_groups):
                for key, value in group.items():
                    if key != "params" and _is_plain(value):  # anything else is as it was built
                        saved.add(f"{prefix}{GROUP}{n}.{m}/{key}", value)
    return saved


def restore(holders: Mapping[str, list[Stateful]], model: nn.Module, saved: Saved) -> None:
    """Give holders that were just built the state that `save` returned."""
    by_name = dict(model.named_parameters())
    owner = {
        (prefix, id(p)): holder
        for prefix, several in holders.items()
        for holder in several
        for group in holder.param_groups
        for p in group["params"]
    }
    longest_first = sorted(holders, key=len, reverse=True)
    for name, value in saved.items():
        prefix = next(prefix for prefix in longest_first if name.startswith(prefix))
        place, _, key = name.removeprefix(prefix).rpartition("/")
        if place.startswith(GROUP):
            n, m = map(int, place.removeprefix(GROUP).split("."))
            holders[prefix][n].param_groups[m][key] = value
        else:
            p = by_name[place]
            owner[prefix, id(p)].state[p][key] = value


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | Tensor)


def size(holders: Iterable[Stateful]) -> int:
    """Return the bytes of all tensors in the states."""
    saved = Saved()
    for holder in holders:
        for n, values in enumerate(holder.state.values()):
            for key, value in values.items():
                saved.add(f"{n}/{key}", value)
    return sum(t.numel() * t.element_size() for t in saved.tensors.values())
