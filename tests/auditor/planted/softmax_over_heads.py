"""The softmax runs over the heads, where a masked score of −1e9 is the same in every head.

Masked keys get weight 1/heads instead of 0: the mask is there and hides nothing.
"""

from gpt_base import GPT, Attn

CLASS = "HeadSoftmax"
FLAGS = ["--causal"]
CAUGHT_BY = {"rows-sum", "future-gradient", "future-tokens"}


class HeadSoftmaxAttn(Attn):
    def weights(self, scores, seen):
        return scores.masked_fill(~seen, -1e9).softmax(dim=1)


class HeadSoftmax(GPT):
    attention = HeadSoftmaxAttn
