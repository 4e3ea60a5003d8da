"""`use_positions=False` still adds the positions: the option is stored and never asked.

The ablation "without positions" is the same model twice.
"""

import torch
from torch import nn

CLASS = "PositionsAnyway"
FLAGS = ["--causal"]
CAUGHT_BY = {"options"}


class PositionsAnyway(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, use_positions=True):
        super().__init__()
        self.use_positions = use_positions
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(T, device=ids.device))
        return self.head(self.layer(x, src_mask=torch.ones(T, T, dtype=torch.bool).triu(1)))
