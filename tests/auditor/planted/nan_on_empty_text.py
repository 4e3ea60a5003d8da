"""A text of padding only hides every key with −inf, and the softmax of nothing is NaN.

One empty line in the corpus turns the loss, then every weight, into NaN.
"""

import torch
from classifier_base import Encoder

CLASS = "EmptyIsNaN"
FLAGS = []
CAUGHT_BY = {"masked-rows"}


class EmptyIsNaN(Encoder):
    def weights(self, scores, seen):
        return scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
