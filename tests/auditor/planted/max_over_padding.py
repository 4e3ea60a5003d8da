"""Max pooling runs over the padding too.

Wherever the padding vector is larger than a text's own features, it wins; more padding never hurts, one token does.
"""

from classifier_base import Encoder

CLASS = "MaxPooled"
FLAGS = []
CAUGHT_BY = {"padding-right", "padding-left"}


class MaxPooled(Encoder):
    def pool(self, x, keep):
        return x.amax(dim=1)
