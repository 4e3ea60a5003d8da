"""Attention scores pass through .data, so queries and keys learn nothing of them."""

from gpt_base import GPT, Attn, Block

CLASS = "ThroughData"
FLAGS = ["--causal"]
CAUGHT_BY = {"derivative"}


class DataAttn(Attn):
    def scores(self, q, k):
        return super().scores(q, k).data


class DataBlock(Block):
    attention = DataAttn


class ThroughData(GPT):
    block = DataBlock
