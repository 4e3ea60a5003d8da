"""Notice when foreign code replaces functions that a check relies on, such as torch.allclose."""

from __future__ import annotations

import sys
from collections.abc import Iterator

WATCHED = ("builtins", "json", "math", "torch", "torch.nn", "torch.nn.functional", "torch.testing", "numpy", "inspect")
CLASSES = ("torch.Tensor", "torch.nn.Module", "torch.nn.Linear", "torch.nn.Embedding", "torch.Generator")
OWN = "headtohead."
IGNORED = {"_", "__warningregistry__"}  # builtins._ is set by the prompt of Python


def snapshot() -> dict[tuple[str, str], int]:
    """Remember which objects the watched modules and classes hold now."""
    return {(place, name): id(value) for place, name, value in _entries()}


def changes(before: dict[tuple[str, str], int]) -> list[str]:
    """Name what was replaced since."""
    return [
        f"{place}.{name}"
        for place, name, value in _entries()
        if (place, name) in before and before[place, name] != id(value)
    ]


def _entries() -> Iterator[tuple[str, str, object]]:
    for place in (*WATCHED, *sorted(name for name in sys.modules if name.startswith(OWN))):
        module = sys.modules.get(place)
        if module is not None:
            for name, value in list(vars(module).items()):
                if name not in IGNORED and callable(value):
                    yield place, name, value
    for place in CLASSES:
        module_name, _, name = place.rpartition(".")
        holder = getattr(sys.modules.get(module_name), name, None)
        if isinstance(holder, type):
            for key, value in list(vars(holder).items()):
                if callable(value):
                    yield place, key, value
