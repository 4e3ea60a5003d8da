import torch
from torch import nn

from headtohead import Norm, knob


class Steady(Norm):
    """Every token's vector gets mean zero and variance one, then a learned gain."""

    equation = "(x − mean(x)) / sqrt(var(x) + eps) · g"
    reference = "Ba et al. 2016, Layer Normalization, without its bias"

    eps: float = knob(default=1e-5, gt=0, help="keeps the division finite")

    def build(self, width):
        return SteadyNorm(width, self.eps)


class SteadyNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):  # (…, T, D)
        x = x - x.mean(dim=-1, keepdim=True)
        size = x.square().mean(dim=(-2, -1), keepdim=True)
        return x / torch.sqrt(size + self.eps) * self.gain
