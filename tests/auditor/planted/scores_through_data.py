"""Attention scores pass through .data, so queries and keys learn nothing of them."""

from gpt_base import GPT, Attn

CLASS = "ThroughData"
FLAGS = ["--causal"]
CAUGHT_BY = {"derivative"}


class ThroughDataAttn(Attn):
    def scores(self, q, k):
        return super().scores(q, k).data


class ThroughData(GPT):
    attention = ThroughDataAttn
