"""The previous token is fetched with `roll`, which wraps the last token round to the first position.

Only the first position reads the future, and only the last token: a test at two neighbouring positions misses it.
"""

import torch
from gpt_base import GPT

CLASS = "TokenShift"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens", "future-length"}


class TokenShift(GPT):
    def embed(self, ids):
        x = super().embed(ids)
        return (x + torch.roll(x, shifts=1, dims=1)) / 2
