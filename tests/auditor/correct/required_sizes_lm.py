"""`vocab` and `block` have no defaults: the auditor has to give them."""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "RequiredSizes"
FLAGS = ["--causal"]


class RequiredSizes(nn.Module):
    def __init__(self, vocab, block, *, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        return self.head(self.last(x + F.scaled_dot_product_attention(q, k, v, is_causal=True)))
