"""ReZero: each branch is multiplied by a gate that starts at zero, so at the start no branch weight has a gradient.

After one step the gates have moved and every weight learns. "No gradient" must be asked of weights in general
position, not of this one point: move all parameters a little, or take a step, before calling a weight dead.
"""

import torch
import torch.nn.functional as F
from torch import nn

CLASS = "ReZero"
FLAGS = ["--causal"]


class ReZero(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.place = nn.Embedding(block, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.attention_gate = nn.Parameter(torch.zeros(()))
        self.feed_gate = nn.Parameter(torch.zeros(()))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        x = x + self.attention_gate * F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.feed_gate * self.feed(x)
        return self.head(self.norm(x))
