"""The number of layers is stored and printed, but two are always built.

A study of depth reports that depth makes no difference.
"""

from torch import nn

CLASS = "TwoWhatever"
FLAGS = ["--causal"]
CAUGHT_BY = {"options"}


class TwoWhatever(nn.Module):
    def __init__(self, vocab=23, width=16, n_layer=2):
        super().__init__()
        self.n_layer = n_layer
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def extra_repr(self):
        return f"n_layer={self.n_layer}"

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])
