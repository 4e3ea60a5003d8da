"""Weights below a tenth are dropped, and the others are not renormalised, so their sum is below one."""

from typing import ClassVar

from headtohead import Weighting, WeightingHooks

CAUGHT_BY = {"rows-sum"}


class Cut(Weighting):
    """Softmax without its small weights."""

    equation: ClassVar[str] = "a_ij where a_ij > 0.1, else 0"
    reference: ClassVar[str] = "none"
    sums_to_one: ClassVar[bool] = True
    dense: ClassVar[bool] = False

    def build(self, layer):
        return CutHooks()


class CutHooks(WeightingHooks):
    def forward(self, scores):
        a = scores.softmax(dim=-1)
        return a * (a > 0.1)
