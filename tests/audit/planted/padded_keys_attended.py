"""The mean leaves padding out, but attention does not: padded keys receive weight.

Every real token's vector is diluted by as much padding as its batch happens to have.
"""

from torch import nn

CLASS = "KeysUnmasked"
FLAGS = []
CAUGHT_BY = {"padding-right", "padding-left"}


class KeysUnmasked(nn.Module):
    def __init__(self, vocab=23, width=16, heads=2, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=0)
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.classify = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, classes))

    def forward(self, ids, mask=None):
        mask = ids.ne(0) if mask is None else mask.bool()
        x = self.embed(ids)
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        mask = mask.unsqueeze(-1)
        pooled = (x * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.classify(pooled)
