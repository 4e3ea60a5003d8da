"""The GRU is built without `batch_first`, so it runs over the texts of a batch instead of over time.

Each text is continued from the one above it, and no token knows what came before it in its own text.
"""

from torch import nn

CLASS = "RunsOverBatch"
FLAGS = ["--causal"]
CAUGHT_BY = {"batch-rows"}


class RunsOverBatch(nn.Module):
    def __init__(self, vocab=23, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.gru = nn.GRU(width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        h, _ = self.gru(self.embed(ids))
        return self.head(h)
