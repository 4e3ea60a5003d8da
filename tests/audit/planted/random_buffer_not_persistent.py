"""A random permutation of the features is a buffer with `persistent=False`.

The weights in a checkpoint are right and belong to another permutation.
"""

import torch
from torch import nn

CLASS = "Permuted"
FLAGS = ["--causal"]
CAUGHT_BY = {"state-dict"}


class Permuted(nn.Module):
    def __init__(self, vocab=23, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.register_buffer("order", torch.randperm(width), persistent=False)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids)[..., self.order])
        return self.head(h)
