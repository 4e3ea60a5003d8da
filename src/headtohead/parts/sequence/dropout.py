"""Dropout with sixteen random bits per value, drawn four values at a time.

torch's dropout draws one value at a time on a CPU, which takes an eighth of a fine-tuning step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

LEVELS = 1 << 16


def dropout(x: Tensor, p: float) -> Tensor:
    """Set each value to zero with probability p, rounded to 1/65,536, and scale the rest to keep the mean."""
    if has_torch_function_unary(x):  # so that a TorchFunctionMode can intercept this function like torch's own
        return handle_torch_function(dropout, (x,), x, p)
    zeros = round(p * LEVELS)
    if zeros == 0:
        return x
    if zeros == LEVELS:
        return x * 0
    drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device).random_(-(1 << 63), None)
    kept = drawn.view(torch.int16)[: x.numel()].view(x.shape) >= zeros - LEVELS // 2
    return x * kept.to(x.dtype).mul_(LEVELS / (LEVELS - zeros))


class Dropout(nn.Module):
    """Apply `dropout` in training mode only, like nn.Dropout."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training and self.p else x
