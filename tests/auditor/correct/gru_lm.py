"""A one-way GRU language model: not a transformer, causal by construction."""

from torch import nn

CLASS = "GRULM"
FLAGS = ["--causal"]


class GRULM(nn.Module):
    def __init__(self, vocab=23, width=16, layers=2, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.gru = nn.GRU(width, width, num_layers=layers, dropout=dropout, batch_first=True)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        h, _ = self.gru(self.drop(self.embed(ids)))
        return self.head(self.drop(h))
