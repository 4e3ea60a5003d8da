"""The masked mean divides by the number of real tokens without minding zero.

A text of padding only gives 0/0 = NaN, and one such text poisons the mean loss of its batch.
"""

from torch import nn

CLASS = "DividesByCount"
FLAGS = []
CAUGHT_BY = {"masked-rows"}


class DividesByCount(nn.Module):
    def __init__(self, vocab=23, width=16, classes=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.hidden = nn.Linear(width, 2 * width)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, ids, attention_mask=None):
        keep = (ids > 0) if attention_mask is None else attention_mask.bool()
        x = self.embed(ids).masked_fill(~keep[..., None], 0.0)
        mean = x.sum(dim=1) / keep.sum(dim=1, keepdim=True)
        return self.head(self.hidden(mean).relu())
