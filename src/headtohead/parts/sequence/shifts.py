"""Causal convolutions over a few tokens, one filter for each channel.

Shapes: x (B, T, C), weight (C, K). Padding is skipped: a token sees the K − 1 real tokens before it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def causal_convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, last: Tensor | None = None, keep: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return y_t = bias + Σ_r weight_r · x_(t − K + 1 + r) for r = 0 … K − 1, and the last K − 1 inputs.

    `last` (B, K − 1, C) are the inputs before x, as the previous call returned them; None stands for zeros. Where
    `keep` (B, T) is false, y is arbitrary, and x changes no other result.
    """
    (T, K), order = (x.shape[1], weight.shape[1]), None
    if keep is not None and not bool(keep.all()):
        order = (~keep).int().argsort(dim=1, stable=True)  # real tokens first
        x = _pick(x, order)
    last = x.new_zeros(len(x), K - 1, x.shape[2]) if last is None else last
    inputs = torch.cat([last, x], dim=1)  # (B, K − 1 + T, C)
    y = inputs[:, K - 1 :] * weight[:, K - 1]
    for r in range(K - 1):
        y = torch.addcmul(y, inputs[:, r : r + T], weight[:, r])
    y = y if bias is None else y + bias
    if order is None or keep is None:
        return y, inputs[:, T:]
    ends = keep.sum(dim=1, keepdim=True) + torch.arange(K - 1, device=x.device)
    return _pick(y, order.argsort(dim=1)), _pick(inputs, ends)


def _pick(x: Tensor, index: Tensor) -> Tensor:
    """Return x (B, T, C) at the tokens `index` (B, T')."""
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[2]))


class ShortConvolution(nn.Module):
    """Weights of a causal convolution over K tokens. The initial weights are torch's for such a convolution."""

    def __init__(self, channels: int, width: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, width))
        self.bias = nn.Parameter(torch.empty(channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.shape[1])
        for p in self.parameters():
            nn.init.uniform_(p, -bound, bound)

    def forward(self, x: Tensor, last: Tensor | None, keep: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the convolution of x (B, T, C) and the last inputs, as `causal_convolution` does."""
        return causal_convolution(x, self.weight, self.bias, last, keep)
