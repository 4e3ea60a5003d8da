"""The window forgets that a token's own place counts, and is one token too narrow.

The furthest token that the window promises is never read.
"""

import torch.nn.functional as F
from torch import nn

CLASS = "TooNarrow"
FLAGS = ["--causal", "--window", "4"]
CAUGHT_BY = {"window"}


class TooNarrow(nn.Module):
    def __init__(self, vocab=23, width=16, window=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.mix = nn.Conv1d(width, width, kernel_size=window - 1)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        behind = self.mix.kernel_size[0] - 1
        return self.head(self.norm(x + self.mix(F.pad(x.mT, (behind, 0))).mT))
