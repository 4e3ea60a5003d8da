"""The naive attention path does not divide scores by sqrt(d); the fused path does.

Attention maps drawn with the naive path are sharper than those the model was trained with.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "FlashOrNaive"
FLAGS = ["--causal"]
CAUGHT_BY = {"paths"}


class FlashOrNaive(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.flash = True
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.where = nn.Parameter(0.02 * torch.randn(block, width))
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.after = nn.LayerNorm(width)
        self.unembed = nn.Linear(width, vocab)

    def attend(self, q, k, v):
        T = q.shape[2]
        if self.flash:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = torch.einsum("bhid,bhjd->bhij", q, k)
        seen = torch.tril(torch.ones(T, T)).bool()
        return scores.masked_fill(~seen, -torch.inf).softmax(dim=-1) @ v

    def forward(self, ids):
        x = self.embed(ids) + self.where[: ids.shape[1]]
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return self.unembed(self.after(x))
