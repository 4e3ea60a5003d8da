"""Heads are re-weighted by the norm of their output over the whole text.

The weights at position t depend on tokens after t, so an honest mask still lets the future through.
"""

from gpt_base import GPT, Attn

CLASS = "NormWeighted"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens", "future-length"}


class NormWeightedAttn(Attn):
    def merge(self, y):
        size = y.norm(dim=(-2, -1), keepdim=True)
        return super().merge(y * size / size.mean(dim=1, keepdim=True))


class NormWeighted(GPT):
    attention = NormWeightedAttn
