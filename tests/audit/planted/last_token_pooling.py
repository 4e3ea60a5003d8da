"""The classifier reads the last column, which is padding for every text but the longest.

Short texts are all summarised from a padding query, as if they ended in the same word.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "LastColumn"
FLAGS = []
CAUGHT_BY = {"padding-right"}


class LastColumn(nn.Module):
    """GPT-style classifier: causal attention without positions, the last token decides."""

    def __init__(self, vocab=23, width=16, heads=2, classes=3):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, keep=None):
        B, T = ids.shape
        keep = ids != 0 if keep is None else keep.bool()
        x = self.embed(ids)
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = torch.ones(T, T, dtype=torch.bool).tril() & keep[:, None, None, :]
        seen = seen | torch.eye(T, dtype=torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, -1))
        return self.head(self.norm2(x[:, -1]))
