"""The window is applied in the full pass and forgotten in the cached one.

The model was trained on four tokens of sight and generates with all of them.
"""

from rotary_base import Attn, Llama

CLASS = "WindowUncached"
FLAGS = ["--causal", "--window", "4"]
CAUGHT_BY = {"cache"}


class WindowUncachedAttn(Attn):
    window = 4

    def seen(self, T, S, past):
        seen = super().seen(T, S, past)
        return seen.triu(1 - self.window) if past is None else seen


class WindowUncached(Llama):
    attention = WindowUncachedAttn

    def __init__(self):
        super().__init__(n_layers=1)
