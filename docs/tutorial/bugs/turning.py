import torch

from headtohead import Position, PositionHooks, knob


class Turning(Position):
    """Queries and keys are rotated by an angle proportional to their position, so scores depend on the offset."""

    equation = "rotate(x, i) turns the pair (x_m, x_{m+d/2}) by the angle i · theta^(−2m/d)"
    reference = "Su et al. 2021, RoFormer"
    relative = True

    theta: float = knob(default=10_000.0, gt=1, help="the slowest pair turns once in 2π times this many tokens")

    def build(self, dims):
        return TurningHooks(dims.head_width, self.theta)


class TurningHooks(PositionHooks):
    def __init__(self, size, theta):
        super().__init__()
        speeds = theta ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("speeds", speeds, persistent=False)  # (d/2,)

    def rotate(self, x, i):
        place = torch.arange(x.shape[-2])[:, None]  # (T, 1)
        angle = place * self.speeds  # (T, d/2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
