"""Heads are put back together by `reshape` without moving the time axis back first.

Each token receives a mixture of several positions' outputs, later ones among them.
"""

from gpt_base import GPT, Attn

CLASS = "MergedWrong"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class MergedWrongAttn(Attn):
    def merge(self, y):
        B, H, T, d = y.shape
        return y.reshape(B, T, H * d)


class MergedWrong(GPT):
    attention = MergedWrongAttn
