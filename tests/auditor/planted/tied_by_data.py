"""The head's `.data` is set to the embedding's: one memory, two parameters.

Each has its own gradient and optimizer state, and both steps land in the same numbers; moving the model parts them.
"""

from gpt_base import GPT
from torch import nn

CLASS = "TiedByData"
FLAGS = ["--causal"]
CAUGHT_BY = {"tied"}


class TiedByData(GPT):
    def __init__(self):
        super().__init__()
        self.head.weight = nn.Parameter(self.wte.weight.data)
