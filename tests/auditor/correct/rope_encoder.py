"""A rotary encoder that sees both ways and takes a mask: moving the text by padding on the left changes nothing."""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "RotaryEncoder"
FLAGS = ["--relative"]


def rope(x):
    d, T = x.shape[-1], x.shape[-2]
    freq = 100.0 ** (-torch.arange(0, d, 2, device=x.device) / d)
    angle = torch.arange(T, device=x.device)[:, None] * freq
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


class RotaryEncoder(nn.Module):
    def __init__(self, vocab=23, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, keep=None):
        keep = torch.ones_like(ids, dtype=torch.bool) if keep is None else keep.bool()
        seen = (keep | ~keep.any(dim=1, keepdim=True))[:, None, None, :]
        x = self.embed(ids)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(rope(q), rope(k), v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.head(self.norm2(x))
