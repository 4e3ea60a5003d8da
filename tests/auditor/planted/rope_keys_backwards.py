"""Keys are rotated the other way, so scores depend on the sum of two positions."""

from rotary_base import Attn, Llama, rope

CLASS = "KeysBackwards"
FLAGS = ["--causal", "--relative"]
CAUGHT_BY = {"shift"}


class KeysBackwardsAttn(Attn):
    def turn(self, q, k, v, pos):
        return rope(q, pos), rope(k, -pos), v


class KeysBackwards(Llama):
    attention = KeysBackwardsAttn
