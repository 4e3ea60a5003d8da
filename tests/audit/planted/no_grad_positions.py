"""Position vectors are looked up under `torch.no_grad()`.

The position table never learns; the model tells order by random vectors.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "NoGradPositions"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class NoGradPositions(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(block, width)
        self.mix = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    @torch.no_grad()
    def where(self, T):
        return self.positions(torch.arange(T))

    def forward(self, ids):
        x = self.tokens(ids) + self.where(ids.shape[1])
        q, k, v = self.mix(x).chunk(3, dim=-1)
        return self.head(self.norm(x + F.scaled_dot_product_attention(q, k, v, is_causal=True)))
