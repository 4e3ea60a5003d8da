"""The naive attention path does not divide scores by sqrt(d); the fused path does.

Attention maps drawn with the naive path are sharper than those the model was trained with.
"""

from paths_base import TwoPaths, TwoPathsAttn

CLASS = "FlashOrNaive"
FLAGS = ["--causal"]
CAUGHT_BY = {"paths"}


class UnscaledAttn(TwoPathsAttn):
    def naive(self, q, k, v):
        return super().naive(q * q.shape[-1] ** 0.5, k, v)


class FlashOrNaive(TwoPaths):
    attention = UnscaledAttn

    def __init__(self):
        super().__init__()
