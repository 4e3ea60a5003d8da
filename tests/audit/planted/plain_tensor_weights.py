"""The projections are tensors with `requires_grad=True`, not parameters.

They receive gradients, yet `parameters()` does not list them: no optimizer moves them and no checkpoint holds them.
"""

import torch
from torch import nn

CLASS = "PlainTensors"
FLAGS = ["--causal"]
CAUGHT_BY = {"registered"}


class PlainTensors(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.w_q = torch.randn(width, width).div_(width**0.5).requires_grad_()
        self.w_k = torch.randn(width, width).div_(width**0.5).requires_grad_()
        self.w_v = torch.randn(width, width).div_(width**0.5).requires_grad_()
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(T))
        scores = (x @ self.w_q) @ (x @ self.w_k).mT / x.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
        x = x + scores.softmax(dim=-1) @ (x @ self.w_v)
        return self.head(self.norm(x))
