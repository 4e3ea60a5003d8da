"""Decays that depend on the token: learned steps as in Mamba-2, and the decays between the tokens of a chunk.

dt_t = softplus(x_t + b),    g_t = −exp(a) · dt_t        (one a and one b per head; exp(g_t) multiplies the state)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STEPS = (1e-3, 1e-1)  # initial step sizes at x = 0, uniform on a logarithmic scale
RATES = (1.0, 16.0)  # initial exp(a), uniform


class Decay(nn.Module):
    """The learned numbers a and b of every head."""

    def __init__(self, heads: int, steps: tuple[float, float] = STEPS) -> None:
        super().__init__()
        self.steps = steps
        self.log_rate, self.bias = nn.Parameter(torch.empty(heads)), nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.log_rate.uniform_(*RATES).log_()
        dt = self.bias.uniform_(*map(math.log, self.steps)).exp()
        self.bias.copy_(dt + torch.log(-torch.expm1(-dt)))  # the inverse of softplus

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the step sizes dt and the logarithms g of the decays for x (…, H)."""
        dt = F.softplus(x + self.bias)
        return dt, -self.log_rate.exp() * dt


def decays_within(g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the decays within chunks for their logarithms g (…, C).

    They are: from token s to token t (…, C, C) at [t, s], zero for s > t; from the beginning of the chunk to each token
    (…, C, 1); from each token to the end (…, C, 1).

    Sums from s to t are not taken as differences of sums from the beginning: after a strong decay, these would have
    lost the digits of the weak ones.
    """
    C = g.shape[-1]
    sums = g[..., None].expand(*g.shape, C).tril(-1).cumsum(dim=-2)
    later = torch.ones(C, C, dtype=torch.bool, device=g.device).triu(1)
    between = sums.masked_fill(later, -torch.inf).exp()
    return between, g.cumsum(dim=-1).exp()[..., None], between[..., -1, :, None]
