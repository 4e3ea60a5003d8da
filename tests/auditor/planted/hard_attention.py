"""Each query takes the one best key by `argmax`, so queries and keys receive no gradient.

Which token is read is decided by the random start and never learned.
"""

import torch
from gpt_base import GPT, Attn
from torch import nn
from torch.nn import functional as F

CLASS = "Hardest"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class HardestAttn(Attn):
    def __init__(self, d, h, dropout, bias):
        super().__init__(d, h, dropout, bias)
        self.qkv, self.q, self.k, self.v = None, nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def project(self, x):
        return torch.cat([self.q(x), self.k(x), self.v(x)], dim=-1)

    def weights(self, scores, seen):
        best = scores.masked_fill(~seen, -torch.inf).argmax(dim=-1)
        return F.one_hot(best, scores.shape[-1]).to(scores.dtype)


class Hardest(GPT):
    attention = HardestAttn
