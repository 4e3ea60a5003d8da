"""Masked scores get −10 instead of −inf, so every future token keeps a weight of about e^−10.

The leak is small enough to look like a better model and large enough to be learned.
"""

from gpt_base import GPT, Attn

CLASS = "MinusTen"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class MinusTenAttn(Attn):
    def weights(self, scores, seen):
        return scores.masked_fill(~seen, -10.0).softmax(dim=-1)


class MinusTen(GPT):
    attention = MinusTenAttn
