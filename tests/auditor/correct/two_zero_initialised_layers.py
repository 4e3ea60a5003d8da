"""Two layers of one shape start at zero: equal numbers, and not meant to be tied.

Both stand in parallel gates that start shut; norms, too, all start at ones and zeros.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "StartsAtZero"
FLAGS = ["--causal"]


class StartsAtZero(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.norm1, self.norm2, self.last = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)
        for layer in (self.proj, self.down):  # both branches into the residual stream
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return self.head(self.last(x))
