"""The recurrent layer of a language model is bidirectional.

The backward half starts at the last token and hands each position everything that follows it.
"""

from torch import nn

CLASS = "BiGRU"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class BiGRU(nn.Module):
    def __init__(self, vocab=23, width=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width // 2, num_layers=layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(width // 2 * 2, vocab)

    def forward(self, ids):
        states, _ = self.rnn(self.embed(ids))
        return self.head(states)
