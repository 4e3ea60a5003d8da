"""The head's `.data` is set to the embedding's: one memory, two parameters.

Each has its own gradient and optimizer state, and both steps land in the same numbers; moving the model parts them.
"""

from torch import nn

CLASS = "TiedByData"
FLAGS = ["--causal"]
CAUGHT_BY = {"tied"}


class TiedByData(nn.Module):
    def __init__(self, vocab=23, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)
        self.head.weight.data = self.embed.weight.data

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids))
        return self.head(self.norm(h))
