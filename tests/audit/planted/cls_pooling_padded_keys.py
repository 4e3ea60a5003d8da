"""The first token decides, which is safe, but it attends to padded keys on the way.

Pooling looks right in review; the label still depends on how far the batch was padded.
"""

import torch
from torch import nn

CLASS = "ClsEncoder"
FLAGS = []
CAUGHT_BY = {"padding-right"}


class ClsEncoder(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.encoder(x)[:, 0])
