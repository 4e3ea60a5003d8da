"""The constructor takes a `window` and attention never looks at it.

A sweep over windows compares a model with itself and finds that the window does not matter.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "WindowIgnored"
FLAGS = ["--causal"]
CAUGHT_BY = {"options"}


class WindowIgnored(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, window=4):
        super().__init__()
        self.window = window
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.head(self.norm(x + F.scaled_dot_product_attention(q, k, v, is_causal=True)))
