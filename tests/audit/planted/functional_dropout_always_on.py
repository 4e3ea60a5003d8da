"""`F.dropout` is called without `training=self.training`, whose default is True.

Evaluation is noisy, and the same text gets another loss each time it is scored.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "AlwaysDropping"
FLAGS = ["--causal"]
CAUGHT_BY = {"dropout"}


class AlwaysDropping(nn.Module):
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
        x = x + F.dropout(F.scaled_dot_product_attention(q, k, v, is_causal=True), 0.1)
        return self.head(self.norm(x))
