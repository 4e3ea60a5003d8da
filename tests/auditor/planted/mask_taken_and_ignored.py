"""The masked language model takes an `attention_mask` and never uses it.

Callers believe that padding is hidden; every real token attends to it.
"""

import torch
from gpt_base import GPT, Attn

CLASS = "IgnoresMask"
FLAGS = []
CAUGHT_BY = {"padding-right"}


class IgnoresMaskAttn(Attn):
    def seen(self, T):
        return torch.ones(T, T, dtype=torch.bool)  # every token sees every token, as it should in a masked model


class IgnoresMask(GPT):
    attention = IgnoresMaskAttn

    def forward(self, ids, attention_mask=None):
        return super().forward(ids)
