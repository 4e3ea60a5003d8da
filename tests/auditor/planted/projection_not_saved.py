"""A fixed random projection is a plain attribute, so the state dict does not hold it.

A checkpoint loaded into a new process gets another projection and answers at chance.
"""

import torch
from gpt_base import GPT, Attn

CLASS = "PlainProjection"
FLAGS = ["--causal"]
CAUGHT_BY = {"state-dict"}


class PlainProjectionAttn(Attn):
    def __init__(self, d, h, dropout, bias):
        super().__init__(d, h, dropout, bias)
        self.projection = torch.randn(d, d) / d**0.5

    def project(self, x):
        return self.qkv(x @ self.projection.to(x.dtype))


class PlainProjection(GPT):
    attention = PlainProjectionAttn
