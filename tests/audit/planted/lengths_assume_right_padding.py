"""The mask given is turned into lengths and back, as if padding always came last.

With padding on the left the first tokens kept are padding and the last real ones are dropped.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "ByLength"
FLAGS = ["--relative"]
CAUGHT_BY = {"padding-left", "shift"}


class ByLength(nn.Module):
    """An encoder without positions, so that where a text begins cannot matter."""

    def __init__(self, vocab=23, width=16, heads=2, classes=3):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, keep=None):
        keep = ids != 0 if keep is None else keep.bool()
        lengths = keep.sum(dim=1, keepdim=True)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths  # (B, T)
        some = real | (lengths == 0)
        x = self.embed(ids)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=some[:, None, None, :])
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.head((x * real[..., None]).sum(dim=1) / lengths.clamp(min=1))
