"""The additive padding mask forgets `1 − mask`: it pushes down the tokens to keep instead of the padding.

Attention reads padding only. Without padding all keys are lowered alike and nothing shows.
"""

from classifier_base import Encoder

CLASS = "Inverted"
FLAGS = []
CAUGHT_BY = {"padding-right", "padding-left"}


class Inverted(Encoder):
    def weights(self, scores, seen):
        return (scores + seen * -10000.0).softmax(dim=-1)
