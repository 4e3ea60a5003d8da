"""The position table becomes a parameter at the first forward pass, after the optimizer was built.

It gets gradients and is in the checkpoint, but no optimizer made before training holds it.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "LatePositions"
FLAGS = ["--causal"]
CAUGHT_BY = {"optimizer", "registered", "state-dict"}


class LatePositions(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.block = block
        self.embed = nn.Embedding(vocab, width)
        self.place = None
        self.qkv = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        if self.place is None:
            waves = torch.outer(torch.arange(self.block), torch.arange(1, x.shape[-1] + 1)).sin()
            self.place = nn.Parameter(waves.to(x.dtype))
        x = x + self.place[: ids.shape[1]]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.head(self.norm(x + F.scaled_dot_product_attention(q, k, v, is_causal=True)))
