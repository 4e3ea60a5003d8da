"""Only queries are rotated, so scores depend on where the query stands."""

from rotary_base import Attn, Llama, rope

CLASS = "QueriesOnly"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


class QueriesOnlyAttn(Attn):
    def turn(self, q, k, v, pos):
        return rope(q, pos), k, v


class QueriesOnly(Llama):
    attention = QueriesOnlyAttn
