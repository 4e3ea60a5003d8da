"""The fast attention path forgets the causal mask that the explicit path applies.

Whoever switches it on for speed trains a model that reads the future, and compares it with one that does not.
"""

from paths_base import TwoPaths, TwoPathsAttn
from torch.nn import functional as F

CLASS = "TwoPathsUnmasked"
FLAGS = ["--causal"]
CAUGHT_BY = {"paths"}


class UnmaskedAttn(TwoPathsAttn):
    def fused(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


class TwoPathsUnmasked(TwoPaths):
    attention = UnmaskedAttn

    def __init__(self, use_sdpa=False):
        super().__init__(flash=use_sdpa)
