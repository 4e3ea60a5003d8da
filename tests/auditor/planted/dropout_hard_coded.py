"""The dropout of attention is written into the code, so the option does not turn it off."""

from gpt_base import GPT, Attn

CLASS = "HardCoded"
FLAGS = ["--causal"]
CAUGHT_BY = {"dropout"}


class HardCodedAttn(Attn):
    def __init__(self, d, h, dropout, bias):
        super().__init__(d, h, 0.1, bias)


class HardCoded(GPT):
    attention = HardCodedAttn
