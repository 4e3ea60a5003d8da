"""The layer norm normalises over time and features together.

Mean and variance are those of the whole text, so every token depends on all later ones.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "NormedText"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens", "future-length"}


class TextNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return F.layer_norm(x, x.shape[1:]) * self.gain + self.bias


class NormedText(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(block, width)
        self.norm = TextNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        q, k, v = self.qkv(self.norm(x)).split(x.shape[-1], dim=-1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return self.lm_head(self.ln_f(x))
