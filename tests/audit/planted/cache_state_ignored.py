"""The recurrent state is returned and never taken up again.

Fed token by token, the model treats every token as the first.
"""

from torch import nn

CLASS = "StateIgnored"
FLAGS = ["--causal"]
CAUGHT_BY = {"cache"}


class StateIgnored(nn.Module):
    def __init__(self, vocab=23, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, cache=None):
        h, cache = self.rnn(self.embed(ids))
        return self.head(h), cache
