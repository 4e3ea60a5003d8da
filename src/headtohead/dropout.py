"""Dropout from sixteen random bits a value. torch's own draws one value at a time on a CPU, and takes an eighth of a
fine-tuning step; this draws four at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

LEVELS = 1 << 16


def dropout(x: Tensor, p: float) -> Tensor:
    """Each value is zero with probability p, to the nearest 65,536th, and scaled so that the mean stays what it was."""
    if has_torch_function_unary(x):  # whoever intercepts torch's functions can intercept this one
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
    """As nn.Dropout: only in training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training and self.p else x
