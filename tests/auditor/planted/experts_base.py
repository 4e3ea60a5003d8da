"""A correct language model in which each token goes to one expert. Planted bugs override how experts are chosen."""

import torch
from recurrent_base import Recurrent
from torch import nn
from torch.nn import functional as F


class Experts(Recurrent):
    def __init__(self, vocab=23, width=16, experts=2):
        super().__init__(vocab, width)
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )

    def run(self, x, cache):
        h, state = super().run(x, cache)
        outputs = torch.stack([expert(h) for expert in self.experts], dim=-1)  # (B, T, D, E)
        return h + (outputs * self.gates(self.router(h))[:, :, None]).sum(dim=-1), state

    def gates(self, scores):  # (B, T, E), all but one of them zero
        chosen = F.one_hot(scores.argmax(dim=-1), scores.shape[-1])
        return scores.softmax(dim=-1) * chosen
