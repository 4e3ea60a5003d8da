"""The padding mask of the first text in the batch is used for all of them.

A long text under a short one loses its end; a short one under a long one attends to padding.
"""

from classifier_base import Encoder

CLASS = "FirstRowMask"
FLAGS = []
CAUGHT_BY = {"batch-rows"}


class FirstRowMask(Encoder):
    def seen(self, keep):
        return keep[:1].expand_as(keep)
