"""BatchNorm takes its statistics over all texts and all positions while training.

Each token is normalised with the tokens that follow it and with other texts; in evaluation the leak is gone and so is
the accuracy it bought.
"""

from gpt_base import GPT
from torch import nn

CLASS = "BatchNormed"
FLAGS = ["--causal"]
CAUGHT_BY = {"batch-rows", "future-gradient", "future-tokens"}


class OverChannels(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.mT).mT


class BatchNormed(GPT):
    def __init__(self):
        super().__init__()
        for block in self.blocks:
            block.ln1 = OverChannels(32)
