"""A fusion of the user's own: each head is scaled by a gate computed from the token's own output."""

from typing import ClassVar

import torch
from torch import nn

from headtohead.parts import Fusion, FusionHooks

CLASS = "GatedHeads"
FLAGS = []


class GatedHeads(Fusion):
    """Heads with a learned gate each."""

    equation: ClassVar[str] = "O_h · 2·sigmoid(w_h · O_h + b_h)"
    reference: ClassVar[str] = "Qiu et al. 2025, Gated Attention for Large Language Models, simplified"

    def build(self, dims, layer):
        return GatedHeadsHooks(dims)


class GatedHeadsHooks(FusionHooks):
    def __init__(self, dims):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dims.heads, 1, dims.head_width) / dims.head_width**0.5)
        self.bias = nn.Parameter(torch.zeros(dims.heads, 1, 1))

    def forward(self, o, keep):  # (B, H, T, d)
        return o * 2 * torch.sigmoid((o * self.weight).sum(dim=-1, keepdim=True) + self.bias)
