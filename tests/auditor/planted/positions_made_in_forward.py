"""The position table becomes a parameter at the first forward pass, after the optimizer was built.

It gets gradients and is in the checkpoint, but no optimizer made before training holds it.
"""

import torch
from gpt_base import GPT
from torch import nn

CLASS = "LatePositions"
FLAGS = ["--causal"]
CAUGHT_BY = {"optimizer", "registered", "state-dict"}


class LatePositions(GPT):
    def __init__(self):
        super().__init__()
        self.wpe, self.place = None, None

    def positions(self, T):
        if self.place is None:
            waves = torch.outer(torch.arange(32), torch.arange(1, 33)).sin()
            self.place = nn.Parameter(waves.to(self.wte.weight.dtype))
        return self.place[:T]
