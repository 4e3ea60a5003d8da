"""Seeing every operation that torch carries out, without loading the compiler."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class Watching(TorchDispatchMode):
    """`__torch_dispatch__` sees each operation while the block under `with` runs."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else the compiler, two seconds of imports, is loaded only to be told to keep out
