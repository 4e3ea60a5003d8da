"""Position vectors are drawn with an unseeded NumPy generator.

Seeding PyTorch fixes all weights but these, so repeated runs differ by a little and nobody knows why.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CLASS = "NumpyPositions"
FLAGS = ["--causal"]
CAUGHT_BY = {"seed"}


class NumpyPositions(nn.Module):
    def __init__(self, vocab=23, block=16, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        drawn = np.random.default_rng().normal(scale=0.1, size=(block, width))
        self.place = nn.Parameter(torch.from_numpy(drawn).float())
        self.qkv = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.embed(ids) + self.place[: ids.shape[1]]
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.head(self.norm(x + F.scaled_dot_product_attention(q, k, v, is_causal=True)))
