"""A correct language model with a fused and a naive attention. Planted bugs override one of the two."""

import torch
from gpt_base import GPT, Attn
from torch.nn import functional as F


class TwoPathsAttn(Attn):
    flash = True

    def attend(self, q, k, v):
        return self.fused(q, k, v) if self.flash else self.naive(q, k, v)

    def fused(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def naive(self, q, k, v):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
        return scores.masked_fill(future, -torch.inf).softmax(dim=-1) @ v


class TwoPaths(GPT):
    attention = TwoPathsAttn

    def __init__(self, flash=True):
        super().__init__(dropout=0.0)
        for block in self.blocks:
            block.attn.flash = flash
