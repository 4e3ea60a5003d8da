"""The causal mask is built transposed: a token sees itself and what comes after, never what came before.

The model copies its answer from the right and learns nothing of the past.
"""

from gpt_base import GPT, Attn

CLASS = "Transposed"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class TransposedAttn(Attn):
    def seen(self, T):
        return super().seen(T).T


class Transposed(GPT):
    attention = TransposedAttn
