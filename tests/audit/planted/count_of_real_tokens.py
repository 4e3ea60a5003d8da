"""Hidden states are scaled by the number of tokens that are not padding, counted over the whole text.

No gradient flows through a count, yet the first token's prediction says how many words follow.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "ScaledByCount"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-tokens", "future-length"}


class ScaledByCount(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.position = nn.Embedding(block, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.position(torch.arange(ids.shape[1]))
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        count = (ids != 0).sum(dim=1).clamp(min=1).view(-1, 1, 1)
        x = x + attended / count.to(x.dtype).sqrt()
        return self.head(self.last(x))
