"""The output layer starts as a copy of the embedding instead of being the embedding.

It is called tied and counted once in the report; the two matrices part at the first step.
"""

import torch
from torch import nn

CLASS = "TiedByCopy"
FLAGS = ["--causal"]
CAUGHT_BY = {"tied"}


class TiedByCopy(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(block, width)
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)
        self.layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = nn.Parameter(self.wte.weight.clone())

    def forward(self, ids):
        T = ids.shape[1]
        x = self.wte(ids) + self.wpe(torch.arange(T))
        return self.lm_head(self.layer(x, src_mask=torch.ones(T, T, dtype=torch.bool).triu(1)))
