"""The head is tied to an embedding drawn with torch's standard deviation of 1.

Each token's logit for itself is about its width: the model starts by repeating its input with near certainty.
"""

from gpt_base import GPT
from torch import nn

CLASS = "TiedAtOne"
FLAGS = ["--causal"]
STATUS = "advice"
CAUGHT_BY = {"initial-loss"}


class TiedAtOne(GPT):
    def __init__(self):
        super().__init__()
        nn.init.normal_(self.wte.weight, std=1.0)
