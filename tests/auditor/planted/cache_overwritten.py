"""The cache holds only the newest keys and values: each call overwrites what the last one stored.

Generation sees two tokens of context whatever the length of the prompt.
"""

from rotary_base import Attn, Llama

CLASS = "Overwritten"
FLAGS = ["--causal"]
CAUGHT_BY = {"cache"}


class OverwrittenAttn(Attn):
    def remembered(self, all, new):
        return new


class Overwritten(Llama):
    attention = OverwrittenAttn
