"""Keys are rotated the other way, so scores depend on the sum of two positions."""

from rotary_base import Llama, rope

CLASS = "KeysBackwards"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


class KeysBackwards(Llama):
    @staticmethod
    def turn(q, k, v, pos):
        return rope(q, pos), rope(k, -pos), v
