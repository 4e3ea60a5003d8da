"""The minus of a rotation is missing: queries and keys are stretched instead."""

import torch
from rotary_base import Llama

CLASS = "WithoutMinus"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


def wrong(x, pos, base=10000.0):
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    ang = pos.to(x.dtype)[:, None] * inv
    cos, sin = torch.cat([ang, ang], -1).cos(), torch.cat([ang, ang], -1).sin()
    half = torch.cat([x[..., d // 2 :], x[..., : d // 2]], -1)
    return x * cos + half * sin


class WithoutMinus(Llama):
    @staticmethod
    def turn(q, k, v, pos):
        return wrong(q, pos), wrong(k, pos), v
