"""Logits are multiplied by sqrt(width) where hidden states should have been divided by it.

The untrained model is sure of random answers: loss starts far above ln V and the first steps only undo it.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "TooSure"
FLAGS = ["--causal"]
CAUGHT_BY = {"initial-loss"}


class TooSure(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        x = self.norm(x + F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self.head(x) * x.shape[-1] ** 0.5
