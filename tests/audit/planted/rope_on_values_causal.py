"""Values are rotated too, so what a token says depends on where it stands."""

from rotary_base import Llama, rope

CLASS = "ValuesToo"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


class ValuesToo(Llama):
    @staticmethod
    def turn(q, k, v, pos):
        return rope(q, pos), rope(k, pos), rope(v, pos)
