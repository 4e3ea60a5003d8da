"""Wide ReLU network on bags, many units may be dead; gradient clipping hook."""

from torch import nn

CLASS = "Clf"
FLAGS = []


class Clf(nn.Module):
    def __init__(self, vocab=40, d=8):
        super().__init__()
        self.emb, self.net = (
            nn.Embedding(vocab, d, padding_idx=0),
            nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)),
        )
        for p in self.parameters():
            p.register_hook(lambda g: g.clamp(-1, 1))

    def forward(self, ids):
        return self.net(self.emb(ids).sum(1))
