"""The causal mask covers the first sixteen tokens only; beyond them everything is seen."""

from gpt_base import GPT, Attn

CLASS = "ShortMask"
FLAGS = ["--causal", "--block", "32"]
CAUGHT_BY = {"future-tokens"}


class ShortMaskAttn(Attn):
    def seen(self, T):
        seen = super().seen(T)
        seen[16:] = seen[:, 16:] = True
        return seen


class ShortMask(GPT):
    attention = ShortMaskAttn
