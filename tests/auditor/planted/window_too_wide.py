"""The local window is compared with <= and lets in one token too many.

Results for a window of 4 are those of a window of 5.
"""

from gpt_base import GPT, Attn

CLASS = "TooWide"
FLAGS = ["--causal", "--window", "4"]
CAUGHT_BY = {"window"}


class TooWideAttn(Attn):
    window = 4

    def seen(self, T):
        return super().seen(T).triu(-self.window)


class TooWide(GPT):
    attention = TooWideAttn

    def __init__(self):
        super().__init__(n_layer=1)
