"""The projections are tensors with `requires_grad=True`, not parameters.

They receive gradients, yet `parameters()` does not list them: no optimizer moves them and no checkpoint holds them.
"""

import torch
from gpt_base import GPT, Attn

CLASS = "PlainTensors"
FLAGS = ["--causal"]
CAUGHT_BY = {"registered"}


class PlainTensorsAttn(Attn):
    def __init__(self, d, h, dropout, bias):
        super().__init__(d, h, dropout, bias)
        self.qkv = None
        self.w = torch.randn(d, 3 * d).div_(d**0.5).requires_grad_()

    def project(self, x):
        return x @ self.w


class PlainTensors(GPT):
    attention = PlainTensorsAttn
