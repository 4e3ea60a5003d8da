"""The window is applied in the full pass and forgotten in the cached one.

The model was trained on four tokens of sight and generates with all of them.
"""

import torch
from torch import nn

CLASS = "WindowUncached"
FLAGS = ["--causal", "--window", "4"]
CAUGHT_BY = {"cache"}


class WindowUncached(nn.Module):
    def __init__(self, vocab=23, width=16, window=4):
        super().__init__()
        self.window = window
        self.embed = nn.Embedding(vocab, width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, cache=None):
        x = self.embed(ids)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        T = ids.shape[1]
        if cache is None:
            i, j = torch.arange(T)[:, None], torch.arange(T)
            seen = (j <= i) & (i - j < self.window)
        else:
            k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
            seen = torch.ones(T, k.shape[1], dtype=torch.bool).tril(k.shape[1] - T)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
        x = x + scores.softmax(dim=-1) @ v
        return self.head(self.norm(x)), (k, v)
