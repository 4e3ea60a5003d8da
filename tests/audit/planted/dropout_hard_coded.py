"""The dropout of attention is written into the code, so the option does not turn it off."""

from gpt_base import GPT, Attn, Block
from torch import nn

CLASS = "HardCoded"
FLAGS = ["--causal"]
CAUGHT_BY = {"dropout"}


class DroppingAttn(Attn):
    def __init__(self, d, h, dropout, bias):
        super().__init__(d, h, dropout, bias)
        self.drop = nn.Dropout(0.1)


class DroppingBlock(Block):
    attention = DroppingAttn


class HardCoded(GPT):
    block = DroppingBlock
