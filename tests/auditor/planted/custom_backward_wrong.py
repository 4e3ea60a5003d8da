"""Custom autograd Function with a wrong backward (sign)."""

import torch
from gpt_base import GPT, Block

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
        return g * (s - x * s * (1 - s))  # the second sign is wrong


class SwishBlock(Block):
    def activation(self, x):
        return Swish.apply(x)


class LM(GPT):
    block = SwishBlock
