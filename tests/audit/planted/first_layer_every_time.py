"""The loop over layers calls the first layer each time.

It is a shared-weight model that reports the parameters of a deep one; all layers but one stay as they were drawn.
"""

import torch
from torch import nn

CLASS = "SameLayer"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class SameLayer(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(T))
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        for _ in self.layers:
            x = self.layers[0](x, src_mask=future)
        return self.head(self.norm(x))
