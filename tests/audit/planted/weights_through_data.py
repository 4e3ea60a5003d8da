"""The feed-forward reads its weight through `.data`, which cuts it from the graph.

The layer's bias is trained and its weight is not, so most of the gradient check passes.
"""

import torch.nn.functional as F
from torch import nn

CLASS = "ThroughData"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class Scaled(nn.Linear):
    """A linear layer whose rows are brought to length one first."""

    def forward(self, x):
        rows = self.weight.data / self.weight.data.norm(dim=1, keepdim=True)
        return F.linear(x, rows, self.bias)


class ThroughData(nn.Module):
    def __init__(self, vocab=23, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.feed = nn.Sequential(Scaled(width, width), nn.GELU(), nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids))
        return self.head(self.norm(h + self.feed(h)))
