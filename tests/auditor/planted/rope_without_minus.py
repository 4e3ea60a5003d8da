"""The minus of a rotation is missing: queries and keys are stretched instead."""

import torch
from rotary_base import Attn, Llama, rope

CLASS = "WithoutMinus"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


class WithoutMinusAttn(Attn):
    def turn(self, q, k, v, pos):
        swapped = lambda x: torch.cat(x.chunk(2, dim=-1)[::-1], dim=-1)
        return rope(q, pos, turned=swapped), rope(k, pos, turned=swapped), v


class WithoutMinus(Llama):
    attention = WithoutMinusAttn
