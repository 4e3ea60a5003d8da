import torch

from headtohead import Position, PositionHooks, knob


class Nearness(Position):
    """Near tokens are favoured: the score falls with the logarithm of the distance."""

    equation = "bias_ij = −strength · log(1 + |i − j|)"
    reference = "Chi et al. 2022, KERPLE, with one fixed strength"
    relative = True

    strength: float = knob(default=2.0, gt=0, help="how fast the score falls")

    def build(self, dims):
        return NearnessHooks(self.strength)


class NearnessHooks(PositionHooks):
    def __init__(self, strength):
        super().__init__()
        self.strength = strength

    def bias(self, q, k, i, j):
        distance = (i - j).abs().to(q.dtype)  # (B|1, 1, Tq, Tk)
        return self.strength * torch.log1p(distance)
