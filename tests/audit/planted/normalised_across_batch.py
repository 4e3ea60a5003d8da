"""Token vectors are standardised with mean and deviation over the texts of the batch.

A text's prediction depends on which other texts happen to be evaluated beside it.
"""

import torch
from torch import nn

CLASS = "AcrossBatch"
FLAGS = ["--causal"]
CAUGHT_BY = {"batch-rows"}


class AcrossBatch(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(T))
        h = (x - x.mean(dim=0)) / (x.std(dim=0, correction=0) + 1e-3)
        future = nn.Transformer.generate_square_subsequent_mask(T, dtype=x.dtype)
        x = x + self.attend(h, h, h, attn_mask=future, is_causal=True, need_weights=False)[0]
        return self.head(self.last(x))
