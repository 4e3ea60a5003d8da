"""The cache holds only the newest keys and values: each call overwrites what the last one stored.

Generation sees two tokens of context whatever the length of the prompt.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "Overwritten"
FLAGS = ["--causal"]
CAUGHT_BY = {"cache"}


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, past):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        new = (k, v)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=1), torch.cat([past[1], v], dim=1)
        T, S = q.shape[1], k.shape[1]
        seen = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen)), new


class Overwritten(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, cache=None):
        start = 0 if cache is None else cache["length"]
        x = self.embed(ids) + self.place(torch.arange(start, start + ids.shape[1]))
        kept = []
        for n, layer in enumerate(self.layers):
            x, new = layer(x, None if cache is None else cache["layers"][n])
            kept.append(new)
        return self.head(self.norm(x)), {"length": start + ids.shape[1], "layers": kept}
