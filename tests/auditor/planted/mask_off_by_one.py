"""The causal mask starts one diagonal too high, so every token also sees the next one.

The next token is the answer: training loss falls to almost nothing and generated text is noise.
"""

import torch
from gpt_base import GPT, Attn

CLASS = "OffByOne"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class OffByOneAttn(Attn):
    def seen(self, T):
        return torch.ones(T, T, dtype=torch.bool).tril(1)


class OffByOne(GPT):
    attention = OffByOneAttn
