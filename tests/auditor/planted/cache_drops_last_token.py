"""The cache that is returned lacks the newest token: it is saved before the new key is added.

Each generated token is written without sight of the one before it.
"""

from rotary_base import Attn, Llama

CLASS = "ForgetsNewest"
FLAGS = ["--causal"]
CAUGHT_BY = {"cache"}


class ForgetsNewestAttn(Attn):
    def remembered(self, all, new):
        k, v = all
        return k[:, :, :-1], v[:, :, :-1]


class ForgetsNewest(Llama):
    attention = ForgetsNewestAttn
