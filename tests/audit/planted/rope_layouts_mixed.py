"""Halves are swapped as in one layout and frequencies repeated as in the other: nothing is rotated."""

import torch
from rotary_base import Llama

CLASS = "LayoutsMixed"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


def wrong(x, pos, base=10000.0):
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    ang = pos.to(x.dtype)[:, None] * inv
    cos, sin = ang.repeat_interleave(2, -1).cos(), ang.repeat_interleave(2, -1).sin()
    half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1)
    return x * cos + half * sin


class LayoutsMixed(Llama):
    @staticmethod
    def turn(q, k, v, pos):
        return wrong(q, pos), wrong(k, pos), v
