"""RMS norm per token, a gated feed-forward, no bias. `eps` changes the output by very little, not by nothing."""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "RmsNormed"
FLAGS = ["--causal"]


class Rms(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.gain


class RmsNormed(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, eps=1e-5):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.norm1, self.norm2, self.last = Rms(width, eps), Rms(width, eps), Rms(width, eps)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        gate, value = self.up(self.norm2(x)).chunk(2, dim=-1)
        return self.head(self.last(x + self.down(F.silu(gate) * value)))
