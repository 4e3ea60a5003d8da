"""The recurrent layer of a language model is bidirectional.

The backward half starts at the last token and hands each position everything that follows it.
"""

from recurrent_base import Recurrent
from torch import nn

CLASS = "BiGRU"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class BiGRU(Recurrent):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(16, 8, batch_first=True, bidirectional=True)
