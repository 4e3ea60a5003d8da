"""The summary of the last batch is kept on the module and added to the next, in evaluation too.

A text's score depends on what was scored before it.
"""

import torch
from recurrent_base import Recurrent

CLASS = "Remembers"
FLAGS = ["--causal"]
CAUGHT_BY = {"dropout", "seed", "batch-rows"}


class Remembers(Recurrent):
    def __init__(self):
        super().__init__()
        self.memory = torch.ones(16)

    def run(self, x, cache):
        h, state = super().run(x + self.memory.to(x.dtype), cache)
        self.memory = h.detach().mean(dim=(0, 1))
        return h, state
