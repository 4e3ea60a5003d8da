"""Takes `max_len`, which only says how long a text may be, and `dropout`, which acts in training only.

Neither changes what an evaluation of a short text gives; both do something.
"""

import torch
from torch import nn

CLASS = "MaxLen"
FLAGS = ["--causal"]


class MaxLen(nn.Module):
    def __init__(self, vocab=23, width=16, heads=2, max_len=32, dropout=0.2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        angle = torch.arange(max_len)[:, None] / 100 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("waves", torch.cat([angle.sin(), angle.cos()], dim=1), persistent=False)
        self.drop = nn.Dropout(dropout)
        self.layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=dropout, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        T = ids.shape[1]
        if len(self.waves) < T:
            raise ValueError(f"{T} tokens, and max_len is {len(self.waves)}")
        x = self.drop(self.embed(ids) + self.waves[:T])
        future = torch.ones(T, T, dtype=torch.bool, device=ids.device).triu(1)
        return self.head(self.layer(x, src_mask=future, is_causal=True))
