"""The GRU is built without `batch_first`, so it runs over the texts of a batch instead of over time.

Each text is continued from the one above it, and no token knows what came before it in its own text.
"""

from recurrent_base import Recurrent
from torch import nn

CLASS = "RunsOverBatch"
FLAGS = ["--causal"]
CAUGHT_BY = {"batch-rows"}


class RunsOverBatch(Recurrent):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(16, 16)
