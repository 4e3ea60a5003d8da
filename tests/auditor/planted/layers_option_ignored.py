"""The number of layers is stored and printed, but two are always built.

A study of depth reports that depth makes no difference.
"""

from recurrent_base import Recurrent

CLASS = "TwoWhatever"
FLAGS = ["--causal"]
CAUGHT_BY = {"options"}


class TwoWhatever(Recurrent):
    def __init__(self, n_layer=2):
        super().__init__(layers=2)
        self.n_layer = n_layer

    def extra_repr(self):
        return f"n_layer={self.n_layer}"
