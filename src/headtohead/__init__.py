"""headtohead: does this change to the transformer really help, by how much, and at what cost?

    import headtohead as h2h

    run = h2h.train("lm", data="shakespeare")
    outcome = h2h.Study(question="…", control=h2h.Arm(), vary={"model.norm": ["LayerNorm", "RMSNorm"]}).run()

The public names are listed with their homes in `__init__.pyi`, for editors and type checkers. Each is loaded when it is
first used, so that importing the package does not import torch.
"""

from __future__ import annotations

import ast
import functools
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

__version__ = "0.1.0"


@functools.cache
def _homes() -> dict[str, str]:
    """Public name → the module that defines it."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _module(home: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as error:
        from headtohead.errors import needs_package

        raise needs_package(f"headtohead.{name}", error) or error from None


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return ["__version__", *sorted(_homes())]
    home = _homes().get(name)
    if home is not None:
        value = globals()[name] = getattr(_module(home, name), name)
        return value
    if name[:1].isupper():  # a part that is not listed: a new one is written in its family's file and nowhere else
        for members in importlib.import_module("headtohead.spec").families(None).values():
            if name in members:
                return members[name]
    raise AttributeError(f"module 'headtohead' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*globals(), *_homes()]
