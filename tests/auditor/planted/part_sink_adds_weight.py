"""A sink whose score is subtracted from the sum, so that weights exceed one in total."""

from typing import ClassVar

from headtohead import Weighting, WeightingHooks

CAUGHT_BY = {"rows-sum"}


class Sinking(Weighting):
    """Softmax with a sink of weight 0.1."""

    equation: ClassVar[str] = "exp(s_ij) / (0.1 + Σ_k exp(s_ik))"
    reference: ClassVar[str] = "none"
    at_most_one: ClassVar[bool] = True

    def build(self, layer):
        return SinkingHooks()


class SinkingHooks(WeightingHooks):
    def forward(self, scores):
        e = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        return e / (e.sum(dim=-1, keepdim=True) - 0.1)
