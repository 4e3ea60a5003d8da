"""Halves are swapped as in one layout and frequencies repeated as in the other: nothing is rotated."""

from rotary_base import Attn, Llama, rope

CLASS = "LayoutsMixed"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


class LayoutsMixedAttn(Attn):
    def turn(self, q, k, v, pos):
        neighbours = lambda angles: angles.repeat_interleave(2, -1)
        return rope(q, pos, repeat=neighbours), rope(k, pos, repeat=neighbours), v


class LayoutsMixed(Llama):
    attention = LayoutsMixedAttn
