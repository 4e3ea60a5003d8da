"""The causal mask is applied in evaluation only.

Training reads the future; evaluation does not, and the gap is blamed on overfitting.
"""

import torch
from gpt_base import GPT, Attn

CLASS = "MaskedAtEval"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class MaskedAtEvalAttn(Attn):
    def seen(self, T):
        seen = super().seen(T)
        return torch.ones_like(seen) if self.training else seen


class MaskedAtEval(GPT):
    attention = MaskedAtEvalAttn
