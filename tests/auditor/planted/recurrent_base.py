"""A correct recurrent language model whose cache is its state. Planted bugs override one of its methods."""

from torch import nn


class Recurrent(nn.Module):
    def __init__(self, vocab=23, width=16, layers=1):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, num_layers=layers, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, cache=None):
        h, state = self.run(self.embedded(ids), cache)
        return self.head(self.norm(h)), state

    def embedded(self, ids):
        return self.embed(ids)

    def run(self, x, cache):
        return self.rnn(x, cache)
