"""Custom autograd Function with a wrong backward (sign)."""

import torch
from torch import nn

CLASS = "LM"
FLAGS = ["--causal"]
CAUGHT_BY = {"derivative"}


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s - x * s * (1 - s))


class LM(nn.Module):
    def __init__(self, vocab=40, d=32):
        super().__init__()
        self.emb, self.rnn, self.out = nn.Embedding(vocab, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, vocab)
        self.fc = nn.Linear(d, d)

    def forward(self, ids):
        return self.out(Swish.apply(self.fc(self.rnn(self.emb(ids))[0])))
