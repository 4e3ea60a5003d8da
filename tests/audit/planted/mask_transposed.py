"""The causal mask is built transposed: a token sees itself and what comes after, never what came before.

The model copies its answer from the right and learns nothing of the past.
"""

import torch
from torch import nn

CLASS = "Transposed"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-gradient", "future-tokens"}


class Transposed(nn.Module):
    def __init__(self, vocab=23, block=16, width=16, heads=2):
        super().__init__()
        self.tok_emb = nn.Embedding(vocab, width)
        self.pos_emb = nn.Embedding(block, width)
        self.attn = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab)
        self.register_buffer("mask", torch.tril(torch.ones(block, block)).bool(), persistent=False)

    def forward(self, ids):
        T = ids.shape[1]
        x = self.tok_emb(ids) + self.pos_emb(torch.arange(T, device=ids.device))
        h = self.ln1(x)
        # nn.MultiheadAttention hides what is True
        hidden = self.mask[:T, :T] & ~torch.eye(T, dtype=torch.bool, device=ids.device)
        x = x + self.attn(h, h, h, attn_mask=hidden, need_weights=False)[0]
        return self.head(self.ln2(x))
