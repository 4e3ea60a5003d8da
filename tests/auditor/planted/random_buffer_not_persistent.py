"""A random permutation of the features is a buffer with `persistent=False`.

The weights in a checkpoint are right and belong to another permutation.
"""

import torch
from recurrent_base import Recurrent

CLASS = "Permuted"
FLAGS = ["--causal"]
CAUGHT_BY = {"state-dict"}


class Permuted(Recurrent):
    def __init__(self):
        super().__init__()
        self.register_buffer("order", torch.randperm(16), persistent=False)

    def embedded(self, ids):
        return super().embedded(ids)[..., self.order]
