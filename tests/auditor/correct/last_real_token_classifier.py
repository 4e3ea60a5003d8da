"""A causal classifier that reads the last real token, wherever the padding stands."""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "LastReal"
FLAGS = []


class LastReal(nn.Module):
    def __init__(self, vocab=23, width=16, heads=2, classes=3, pad=0):
        super().__init__()
        self.heads, self.pad = heads, pad
        self.embed = nn.Embedding(vocab, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        B, T = ids.shape
        keep = ids != self.pad
        x = self.embed(ids)
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        own = torch.eye(T, dtype=torch.bool, device=ids.device)
        seen = own | (torch.ones_like(own).tril() & keep[:, None, None, :])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, -1))
        last = (keep * torch.arange(T, device=ids.device)).argmax(dim=1)
        return self.head(self.norm2(x[torch.arange(B, device=ids.device), last]))
