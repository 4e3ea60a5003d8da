"""Queries, keys and values each have a bias. Softmax cancels the key bias, so its gradient is zero up to rounding.

It is useless, not broken: PyTorch, GPT-2 and BERT all have it.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "KeyBias"
FLAGS = ["--causal"]


class KeyBias(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        y = F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x), is_causal=True)
        return self.head(self.norm(x + y))
