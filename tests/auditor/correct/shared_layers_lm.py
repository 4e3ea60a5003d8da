"""One layer applied several times (ALBERT's way): the same weights listed once, used thrice."""

import torch
from torch import nn

CLASS = "SharedLayers"
FLAGS = ["--causal"]


class SharedLayers(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, repeats=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.layers = nn.ModuleList([layer] * repeats)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(T, device=ids.device))
        future = torch.ones(T, T, dtype=torch.bool, device=ids.device).triu(1)
        for layer in self.layers:
            x = layer(x, src_mask=future)
        return self.head(self.norm(x))
