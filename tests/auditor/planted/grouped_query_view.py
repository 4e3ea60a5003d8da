"""Queries, keys and values are split into heads by `view` alone, without moving the time axis.

What the code calls a head is a stretch of time, so the causal mask orders pieces of features instead of tokens.
"""

from rotary_base import Attn, Llama

CLASS = "GroupedView"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class GroupedViewAttn(Attn):
    def heads(self, x, n):
        B, T, _ = x.shape
        return x.view(B, n, T, -1)


class GroupedView(Llama):
    attention = GroupedViewAttn
