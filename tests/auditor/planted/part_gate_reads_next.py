"""An output gate that reads the token after the one it gates."""

from typing import ClassVar

import torch
from torch import nn

from headtohead import Gate, GateHooks

CAUGHT_BY = {"future-gradient", "future-tokens"}


class Ahead(Gate):
    """A gate for each head, computed from the input of the layer."""

    equation: ClassVar[str] = "o ⊙ sigmoid(W x)"
    reference: ClassVar[str] = "Qiu et al. 2025"

    def build(self, layer):
        return AheadHooks(layer)


class AheadHooks(GateHooks):
    def __init__(self, layer):
        super().__init__()
        self.project = nn.Linear(layer.dims.width, layer.dims.heads)

    def forward(self, o, x, mask):
        gates = self.project(mask.texts(x)).sigmoid().transpose(1, 2)  # (B, H, T)
        return o * torch.cat([gates[:, :, 1:], gates[:, :, -1:]], dim=2)[..., None]
