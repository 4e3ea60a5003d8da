import torch
from torch import nn

from headtohead import Position, PositionHooks, knob


class Offsets(Position):
    """One learned number for each head and each offset up to `span`; all larger offsets share the last."""

    equation = "bias_ij = b_h[clamp(i − j, −span, span)]"
    reference = "Shaw et al. 2018, Self-Attention with Relative Position Representations, one number per offset"
    relative = True

    span: int = knob(default=4, ge=1, help="the last offset with its own number")

    def build(self, dims):
        return OffsetsHooks(dims.heads, self.span)


class OffsetsHooks(PositionHooks):
    def __init__(self, heads, span):
        super().__init__()
        self.span = span
        self.table = nn.Parameter(torch.zeros(heads, 2 * span + 1))

    def bias(self, q, k, i, j):
        offset = i - j  # (B|1, 1, Tq, Tk)
        within = offset.clamp(-self.span, self.span)
        b = self.table[:, within[:, 0] + self.span].transpose(0, 1)  # (B|1, H, Tq, Tk)
        return b.masked_fill(offset.abs() > self.span, -torch.inf)
