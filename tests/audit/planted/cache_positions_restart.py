"""With a cache, positions start again at 0 for every new token.

Training is right; generated text goes wrong from the second token on.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "RestartedPositions"
FLAGS = ["--causal"]
CAUGHT_BY = {"cache"}


class RestartedPositions(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, cache=None):
        T = ids.shape[1]
        x = self.embed(ids) + self.place(torch.arange(T))
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        S = k.shape[2]
        seen = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.head(self.norm2(x)), (k, v)
