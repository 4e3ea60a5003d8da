"""A pooling that leaves padding out of the sum and counts it in the mean.

A text's vector shrinks with the padding of its batch, so short texts are all alike.
"""

from typing import ClassVar

from headtohead.parts import Pooling

CLASS = "CountsPadding"
FLAGS = []
CAUGHT_BY = {"padding-right", "padding-left"}


class CountsPadding(Pooling):
    """The mean of the real tokens, or so it says."""

    equation: ClassVar[str] = "Σ_t keep_t x_t / T"
    reference: ClassVar[str] = "nobody"

    def pool(self, x, keep):
        return (x * keep[:, :, None]).sum(dim=1) / x.shape[1]
