"""Weights are drawn from a generator of their own that is seeded by the operating system.

`torch.manual_seed` has no say: no run can be repeated, and two arms with "the same seed" start apart.
"""

import os

import torch
from gpt_base import GPT
from torch import nn

CLASS = "OwnGenerator"
FLAGS = ["--causal"]
CAUGHT_BY = {"seed"}


class OwnGenerator(GPT):
    def __init__(self):
        super().__init__()
        draw = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "big"))
        nn.init.normal_(self.wpe.weight, std=0.02, generator=draw)
