"""The mask multiplies the weights after the softmax, and they are not normalised again.

The denominator still sums over future keys, and rows sum to less than one, least at the start of the text.
"""

from gpt_base import GPT, Attn

CLASS = "MaskedLate"
FLAGS = ["--causal"]
CAUGHT_BY = {"rows-sum", "future-gradient", "future-tokens", "future-length"}


class MaskedLateAttn(Attn):
    def weights(self, scores, seen):
        return scores.softmax(dim=-1) * seen


class MaskedLate(GPT):
    attention = MaskedLateAttn
