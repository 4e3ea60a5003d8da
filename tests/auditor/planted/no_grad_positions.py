"""Position vectors are looked up under `torch.no_grad()`.

The position table never learns; the model tells order by random vectors.
"""

import torch
from gpt_base import GPT

CLASS = "NoGradPositions"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class NoGradPositions(GPT):
    @torch.no_grad()
    def positions(self, T):
        return super().positions(T)
