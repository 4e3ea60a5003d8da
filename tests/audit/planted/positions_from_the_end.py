"""Positions are counted from the end of the text: the last token is position 0.

A language model cannot know where its text ends; the first token's prediction changes with every token appended.
"""

import torch
from torch import nn

CLASS = "CountedBackwards"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-length"}


class CountedBackwards(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.position = nn.Embedding(block, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.stack = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.position(torch.arange(T - 1, -1, -1))
        future = torch.triu(torch.full((T, T), -torch.inf, dtype=x.dtype), diagonal=1)
        return self.head(self.stack(x, mask=future))
