"""The softmax runs over the heads, where a masked score of −1e9 is the same in every head.

Masked keys get weight 1/heads instead of 0: the mask is there and hides nothing.
"""

import torch
from torch import nn

CLASS = "HeadSoftmax"
FLAGS = ["--causal"]
CAUGHT_BY = {"rows-sum", "future-gradient", "future-tokens"}


class HeadSoftmax(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.heads, self.d_k = heads, width // heads
        self.embedding = nn.Embedding(vocab, width)
        self.position = nn.Embedding(block, width)
        self.w_q = nn.Linear(width, width, bias=False)
        self.w_k = nn.Linear(width, width, bias=False)
        self.w_v = nn.Linear(width, width)
        self.w_o = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.generator = nn.Linear(width, vocab)

    def forward(self, ids):
        B, T = ids.shape
        x = self.embedding(ids) + self.position(torch.arange(T).expand(B, T))
        q = self.w_q(x).view(B, T, self.heads, self.d_k).transpose(1, 2)
        k = self.w_k(x).view(B, T, self.heads, self.d_k).transpose(1, 2)
        v = self.w_v(x).view(B, T, self.heads, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.d_k**0.5  # (B, H, T, T)
        mask = torch.tril(torch.ones(T, T)).view(1, 1, T, T)
        p = scores.masked_fill(mask == 0, -1e9).softmax(dim=1)
        x = x + self.w_o(torch.matmul(p, v).transpose(1, 2).contiguous().view(B, T, -1))
        return self.generator(self.norm(x))
