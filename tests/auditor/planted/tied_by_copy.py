"""The output layer starts as a copy of the embedding instead of being the embedding.

It is called tied and counted once in the report; the two matrices part at the first step.
"""

from gpt_base import GPT
from torch import nn

CLASS = "TiedByCopy"
FLAGS = ["--causal"]
CAUGHT_BY = {"tied"}


class TiedByCopy(GPT):
    def __init__(self):
        super().__init__()
        self.head.weight = nn.Parameter(self.wte.weight.clone())
