"""Observe every operation that torch runs, without loading its compiler."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):
    """Base class: inside a `with` block, `__torch_dispatch__` receives each operation."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import the compiler, which takes two seconds, only to disable it
