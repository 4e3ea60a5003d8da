"""The `dropout` given is not the dropout used: the layer is built with a fixed 0.1.

A grid over dropout measures seed noise. Evaluation cannot show it; only training mode can.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "FixedDropout"
FLAGS = ["--causal"]
CAUGHT_BY = {"options"}


class FixedDropout(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, dropout=0.1):
        super().__init__()
        self.p = dropout
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.drop = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.drop(self.embed(ids) + self.place(torch.arange(ids.shape[1])))
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.head(self.norm(x + self.drop(F.scaled_dot_product_attention(q, k, v, is_causal=True))))
