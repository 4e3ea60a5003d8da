"""The fast attention path forgets the causal mask that the explicit path applies.

Whoever switches it on for speed trains a model that reads the future, and compares it with one that does not.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "TwoPaths"
FLAGS = ["--causal"]
CAUGHT_BY = {"paths"}


class SelfAttention(nn.Module):
    def __init__(self, width, heads, use_sdpa):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.heads, self.use_sdpa = heads, use_sdpa

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        if self.use_sdpa:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            future = torch.ones(T, T, dtype=torch.bool).triu(1)
            y = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(B, T, D))


class TwoPaths(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, use_sdpa=False):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        self.wpe = nn.Embedding(block, width)
        self.ln_1, self.ln_2, self.ln_f = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = SelfAttention(width, heads, use_sdpa)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return self.lm_head(self.ln_f(x))
