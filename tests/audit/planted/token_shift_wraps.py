"""The previous token is fetched with `roll`, which wraps the last token round to the first position.

Only the first position reads the future, and only the last token: a test at two neighbouring positions misses it.
"""

import torch
from torch import nn

CLASS = "TokenShift"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens", "future-length"}


class TokenShift(nn.Module):
    def __init__(self, vocab=23, width=16, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.share = nn.Parameter(torch.full((width,), 0.5))
        self.key = nn.Linear(width, hidden, bias=False)
        self.value = nn.Linear(hidden, width, bias=False)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        h, _ = self.rnn(x)
        previous = torch.roll(x, shifts=1, dims=1)
        mixed = x * self.share + previous * (1 - self.share)
        return self.head(self.norm(h + self.value(self.key(mixed).relu() ** 2)))
