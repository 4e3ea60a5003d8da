"""The softmax runs over the queries (dim −2) instead of the keys.

A token's weights are divided by what later tokens ask for, so the future leaks and no row sums to one.
"""

import torch
from gpt_base import GPT, Attn

CLASS = "WrongAxis"
FLAGS = ["--causal"]
CAUGHT_BY = {"rows-sum", "future-gradient", "future-tokens"}


class WrongAxisAttn(Attn):
    def weights(self, scores, seen):
        return scores.masked_fill(~seen, -torch.inf).softmax(dim=-2)


class WrongAxis(GPT):
    attention = WrongAxisAttn
