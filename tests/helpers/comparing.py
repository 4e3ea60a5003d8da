"""What every comparison needs: weights that matter, padded texts, and the largest difference on real tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from headtohead import explicit

SAME = 1e-5  # float32, logits of the order of one
DIFFERENT = 1e-3

Model = TypeVar("Model", bound=nn.Module)


def randomised(model: Model, seed: int = 0) -> Model:
    """Every weight drawn anew and large, so that no bias is zero, no gain one, and attention far from uniform."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            noise = 0.2 * torch.randn(p.shape, generator=draw)
            p.copy_(noise if p.ndim > 1 else p + noise)
    return model.eval()


def texts(vocab: int, lengths: list[int], pad: Literal["right", "left"] = "right") -> tuple[Tensor, Tensor]:
    """ids and keep, both (B, T): random tokens above 0, the shorter texts padded with 0."""
    draw = torch.Generator().manual_seed(1)
    t = torch.arange(max(lengths)).expand(len(lengths), -1)
    length = torch.tensor(lengths)[:, None]
    keep = t < length if pad == "right" else t >= t.shape[1] - length
    return torch.randint(1, vocab, keep.shape, generator=draw) * keep, keep


def counted(keep: Tensor) -> Tensor:
    """(B, T): real tokens before each, as Hugging Face wants it where padding stands on the left."""
    return (keep.long().cumsum(dim=1) - 1).clamp(min=0)


@torch.no_grad()
def difference(ours: nn.Module, theirs: Callable[[], Tensor], *given: Any, at: Tensor | None = None) -> float:
    """The largest difference on either code path of ours, over the places that `at` (B, T) picks."""
    expected = theirs()
    at = torch.ones(expected.shape[:1], dtype=torch.bool) if at is None else at
    fast = ours(*given)
    with explicit(ours):
        slow = ours(*given)
    assert fast.shape == slow.shape == expected.shape
    assert expected[at].abs().max() > 0.1, "nothing to compare"
    return max(float((x - expected)[at].abs().max()) for x in (fast, slow))


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
