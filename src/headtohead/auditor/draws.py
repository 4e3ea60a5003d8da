"""Random weights in little time: a large module is built several times in one audit."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Generator, Tensor

from headtohead.model.operations import Watching

TABLE = 1_048_583  # numbers; a prime, so that the rows of a matrix start at different places of the table
SMALLEST = 100_000  # smaller tensors are filled by torch


class FastDraws(Watching):
    """Inside a `with` block, large tensors are filled from a table of random numbers, in a tenth of the time.

    torch's generator draws where in the table a tensor begins. So weights keep the distribution that the module asks
    for, the same seed gives the same weights, and another seed gives others.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = func.overloadpacket.__name__
        if name in ("normal_", "uniform_") and _can_fill(args[0]):
            generator = kwargs.pop("generator", None)
            names = ("mean", "std") if name == "normal_" else ("from", "to")
            given = {**dict(zip(names, (0.0, 1.0), strict=True)), **dict(zip(names, args[1:], strict=False)), **kwargs}
            first, second = (given[n] for n in names)
            if name == "normal_":
                return _fill(args[0], _table("normal"), second, first, generator)
            return _fill(args[0], _table("uniform"), second - first, first, generator)
        if name in ("randn", "rand") and func in (torch.ops.aten.randn.default, torch.ops.aten.rand.default):
            out = torch.empty(args[0], **kwargs)
            if _can_fill(out):
                return _fill(out, _table("normal" if name == "randn" else "uniform"), 1.0, 0.0, None)
        return func(*args, **kwargs)


def add_noise_(p: Tensor, scale: Tensor, generator: Generator) -> None:
    """Add normal noise of this standard deviation to a tensor, from the table if the tensor is large."""
    if not _can_fill(p):
        p.add_(torch.randn(p.shape, generator=generator, dtype=p.dtype) * scale)
        return
    for part, noise in _parts(p, _table("normal"), generator):
        part.add_(noise.to(p.dtype) * scale)


def _can_fill(x: Tensor) -> bool:
    return x.numel() >= SMALLEST and x.is_contiguous() and x.is_floating_point() and x.device.type == "cpu"


def _fill(x: Tensor, table: Tensor, scale: float, shift: float, generator: Generator | None) -> Tensor:
    for part, numbers in _parts(x, table, generator):
        part.copy_(numbers * scale + shift)
    return x


def _parts(x: Tensor, table: Tensor, generator: Generator | None) -> list[tuple[Tensor, Tensor]]:
    """Cut a tensor into views, and give each the part of the table that it is filled with."""
    start = int(torch.randint(0, TABLE, (), generator=generator))
    numbers = table.roll(-start)
    flat = x.detach().view(-1)
    whole = flat.numel() // TABLE * TABLE
    return [
        (part, part_numbers)
        for part, part_numbers in (
            (flat[:whole].view(-1, TABLE), numbers),
            (flat[whole:], numbers[: flat.numel() - whole]),
        )
        if part.numel()
    ]


@lru_cache(maxsize=2)
def _table(kind: str) -> Tensor:
    draw = torch.Generator().manual_seed(70)
    return torch.randn(TABLE, generator=draw) if kind == "normal" else torch.rand(TABLE, generator=draw)
