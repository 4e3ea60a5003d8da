"""Only queries are rotated, so scores depend on where the query stands."""

from rotary_base import Llama, rope

CLASS = "QueriesOnly"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


class QueriesOnly(Llama):
    @staticmethod
    def turn(q, k, v, pos):
        return rope(q, pos), k, v
