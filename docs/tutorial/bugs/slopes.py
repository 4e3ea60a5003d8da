import torch

from headtohead import Position, PositionHooks


class Slopes(Position):
    """A penalty on distance with a slope for each head: steep heads look near, flat heads look far."""

    equation = "bias_ij = −m_h · |i − j|,  m_h = 2^(−8h/H) for h = 1 … H"
    reference = "Press et al. 2021, Train Short, Test Long"
    relative = True
    decays = True

    def build(self, dims):
        return SlopesHooks(dims.heads)


class SlopesHooks(PositionHooks):
    def __init__(self, heads):
        super().__init__()
        slopes = torch.tensor([2 ** (8 * h / heads) for h in range(1, heads + 1)])
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)  # (H, 1, 1)

    def bias(self, q, k, i, j):
        return -self.slopes * (i - j).abs()  # (B|1, H, Tq, Tk)
