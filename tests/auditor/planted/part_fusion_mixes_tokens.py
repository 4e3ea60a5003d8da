"""A head fusion subtracts from each head its mean over the text.

Every token then knows the mean of what later tokens said, in a causal model too.
"""

from typing import ClassVar

from headtohead.parts import Fusion, FusionHooks

CLASS = "Centred"
FLAGS = []
CAUGHT_BY = {"future-gradient", "future-tokens"}


class Centred(Fusion):
    """Heads with their mean taken away."""

    equation: ClassVar[str] = "O_h − mean_t O_h"
    reference: ClassVar[str] = "nobody"

    def build(self, dims, layer):
        return CentredHooks()


class CentredHooks(FusionHooks):
    def forward(self, o, keep):  # (B, H, T, d)
        return o - o.mean(dim=2, keepdim=True)
