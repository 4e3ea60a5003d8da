"""Values are rotated too, so what a token says depends on where it stands."""

from rotary_base import Attn, Llama, rope

CLASS = "ValuesToo"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


class ValuesTooAttn(Attn):
    def turn(self, q, k, v, pos):
        return rope(q, pos), rope(k, pos), rope(v, pos)


class ValuesToo(Llama):
    attention = ValuesTooAttn
