"""The padding mask of a module: its name among the arguments of `forward`, and the type that the module accepts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

KEEP_NAMES = ("keep", "mask", "attention_mask")  # true at real tokens
DROP_NAMES = ("key_padding_mask", "padding_mask", "pad_mask", "src_key_padding_mask")  # true at padding
T = TypeVar("T")
TYPES = (torch.bool, torch.long, torch.float32)


def mask_argument(model: nn.Module) -> str | None:
    """Return the name of the padding mask among the arguments of `forward`; None if there is none."""
    names = inspect.signature(model.forward).parameters
    return next((n for n in names if n in KEEP_NAMES + DROP_NAMES), None)


def mask_value(name: str, keep: Tensor, kind: torch.dtype) -> Tensor:
    """Return the mask that the argument `name` expects for the real tokens `keep` (B, T)."""
    return (~keep if name in DROP_NAMES else keep).to(kind)


def with_accepted_type(call: Callable[[torch.dtype], T]) -> tuple[torch.dtype, T]:
    """Return the first type of mask with which `call` does not fail, and its result. Raise the first error if it fails
    with each type."""
    first: Exception | None = None
    for kind in TYPES:
        try:
            return kind, call(kind)
        except Exception as error:  # the user's code refuses this type
            first = first or error
    assert first is not None
    raise first


def lengths_mask(rows: int, length: int) -> Tensor:
    """Return real tokens (rows, length) of texts of several lengths, padded on the right; the first is not padded."""
    lengths = torch.tensor([length, length - 1, length // 2, 1]).clamp(min=1).repeat(rows)[:rows, None]
    return torch.arange(length) < lengths
