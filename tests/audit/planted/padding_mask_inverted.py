"""The additive padding mask forgets `1 − mask`: it pushes down the tokens to keep instead of the padding.

Attention reads padding only. Without padding all keys are lowered alike and nothing shows.
"""

import torch
from torch import nn

CLASS = "Inverted"
FLAGS = []
CAUGHT_BY = {"padding-right", "padding-left"}


class Inverted(nn.Module):
    def __init__(self, vocab=23, width=16, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, attention_mask=None):
        mask = (ids != 0) if attention_mask is None else attention_mask
        mask = mask.to(self.head.weight.dtype)
        x = self.norm(self.embed(ids))
        scores = torch.bmm(self.q(x), self.k(x).transpose(1, 2)) / x.shape[-1] ** 0.5
        scores = scores + mask[:, None, :] * -10000.0
        x = x + scores.softmax(dim=-1) @ self.v(x)
        return self.head((x * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1))
