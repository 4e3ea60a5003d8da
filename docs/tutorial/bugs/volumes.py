import torch
from torch import nn

from headtohead import Fusion, FusionHooks


class Volumes(Fusion):
    """The output of every head is multiplied by a learned number, its volume."""

    equation = "[v_1·O_1  v_2·O_2  …  v_H·O_H],  v_h learned"
    reference = "an exercise"

    def build(self, dims, layer):
        return VolumesHooks(dims.heads)


class VolumesHooks(FusionHooks):
    def __init__(self, heads):
        super().__init__()
        self.volumes = [nn.Parameter(torch.ones(1)) for _ in range(heads)]

    def forward(self, o, keep):  # (B, H, T, d)
        return torch.stack([v * head for v, head in zip(self.volumes, o.unbind(dim=1), strict=True)], dim=1)
