"""`dropout_p` is handed to scaled_dot_product_attention in evaluation too; that function knows no eval mode.

`model.eval()` switches off every other dropout, so scores are noisy for no visible reason.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "DropsInEval"
FLAGS = ["--causal"]
CAUGHT_BY = {"dropout"}


class DropsInEval(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2, dropout=0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Sequential(nn.Linear(width, width), nn.Dropout(dropout))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        B, T = ids.shape
        x = self.embed(ids) + self.place(torch.arange(T))
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, -1))
        return self.head(self.norm2(x))
