"""The masked mean divides by the number of real tokens without minding zero.

A text of padding only gives 0/0 = NaN, and one such text poisons the mean loss of its batch.
"""

from classifier_base import Encoder

CLASS = "DividesByCount"
FLAGS = []
CAUGHT_BY = {"masked-rows"}


class DividesByCount(Encoder):
    def pool(self, x, keep):
        return (x * keep[..., None]).sum(dim=1) / keep.sum(dim=1, keepdim=True)
