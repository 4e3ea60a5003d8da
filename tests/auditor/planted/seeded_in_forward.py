"""The forward pass seeds torch: every step drops the same units, and other random numbers repeat."""

import torch
from gpt_base import GPT

CLASS = "SeededInForward"
FLAGS = ["--causal"]
CAUGHT_BY = {"seed"}


class SeededInForward(GPT):
    def forward(self, ids):
        torch.manual_seed(0)
        return super().forward(ids)
