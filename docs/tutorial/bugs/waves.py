import torch

from headtohead import Position, PositionHooks, knob


class Waves(Position):
    """Fixed sines and cosines of many wavelengths, added to the token's vector."""

    equation = "x_i = e_i + size · [sin(i·w_0), …, cos(i·w_0), …],  w_m = base^(−2m/D)"
    reference = "Vaswani et al. 2017, Attention Is All You Need, section 3.5"

    base: float = knob(default=10_000.0, gt=1, help="the longest wavelength is 2π times this")
    size: float = knob(default=0.1, gt=0, help="factor of the sines and cosines")

    def build(self, dims):
        return WavesHooks(dims.width, size=self.size)


class WavesHooks(PositionHooks):
    def __init__(self, width, base=10_000.0, size=1.0):
        super().__init__()
        self.size = size
        self.register_buffer("speeds", base ** (-torch.arange(0, width, 2) / width), persistent=False)

    def embed(self, x, i):
        angle = i[..., None] * self.speeds  # (B|1, T, D/2)
        return x + self.size * torch.cat([angle.sin(), angle.cos()], dim=-1).to(x.dtype)
