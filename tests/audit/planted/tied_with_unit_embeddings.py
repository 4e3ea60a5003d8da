"""The head is tied to an embedding drawn with torch's standard deviation of 1.

Each token's logit for itself is about its width: the model starts by repeating its input with near certainty.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "TiedAtOne"
FLAGS = ["--causal"]
CAUGHT_BY = {"initial-loss"}


class TiedAtOne(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Parameter(0.02 * torch.randn(block, width))
        self.c_attn = nn.Linear(width, 3 * width)
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe[: ids.shape[1]]
        q, k, v = self.c_attn(x).chunk(3, dim=-1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.lm_head(self.ln_f(x))
