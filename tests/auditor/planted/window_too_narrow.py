"""The window forgets that a token's own place counts, and is one token too narrow.

The furthest token that the window promises is never read.
"""

from gpt_base import GPT, Attn

CLASS = "TooNarrow"
FLAGS = ["--causal", "--window", "4"]
CAUGHT_BY = {"window"}


class TooNarrowAttn(Attn):
    window = 4

    def seen(self, T):
        return super().seen(T).triu(2 - self.window)


class TooNarrow(GPT):
    attention = TooNarrowAttn

    def __init__(self):
        super().__init__(n_layer=1)
