"""The attention heads are kept in a plain Python list.

PyTorch does not see them: they are never trained, never saved and never moved to another device.
"""

import torch
from gpt_base import GPT, Attn
from torch import nn

CLASS = "ListOfHeads"
FLAGS = ["--causal"]
CAUGHT_BY = {"registered"}


class ListOfHeadsAttn(Attn):
    def __init__(self, d, h, dropout, bias):
        super().__init__(d, h, dropout, bias)
        self.qkv = None
        self.each = [nn.Linear(d, 3 * d // h, bias=bias) for _ in range(h)]

    def project(self, x):  # q, k and v of every head, then q of all heads first
        heads = torch.stack([head(x) for head in self.each], dim=-2)
        return torch.cat([t.flatten(-2) for t in heads.chunk(3, dim=-1)], dim=-1)


class ListOfHeads(GPT):
    attention = ListOfHeadsAttn
