"""A weighting that divides by the largest weight, and claims that the weights of a query sum to one."""

from typing import ClassVar

from headtohead import Weighting, WeightingHooks

CAUGHT_BY = {"rows-sum"}


class Peaked(Weighting):
    """Softmax divided by its largest weight."""

    equation: ClassVar[str] = "exp(s_ij) / Σ_k exp(s_ik)"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need"
    sums_to_one: ClassVar[bool] = True

    def build(self, layer):
        return PeakedHooks()


class PeakedHooks(WeightingHooks):
    def forward(self, scores):
        a = scores.softmax(dim=-1)
        return a / a.amax(dim=-1, keepdim=True)
