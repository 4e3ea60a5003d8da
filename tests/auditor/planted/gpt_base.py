"""A correct language model in the style of GPT-2. Planted bugs override one of its methods."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attn(nn.Module):
    def __init__(self, d, h, dropout, bias):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d, bias=bias)
        self.proj = nn.Linear(d, d, bias=bias)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = (self.heads(t) for t in self.project(x).chunk(3, dim=-1))
        return self.proj(self.merge(self.attend(q, k, v)))

    def project(self, x):
        return self.qkv(x)

    def heads(self, x):  # (B, T, C) to (B, H, T, C/H)
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def merge(self, y):  # (B, H, T, C/H) to (B, T, C)
        return y.transpose(1, 2).flatten(2)

    def attend(self, q, k, v):
        scores = self.scores(q, k) / math.sqrt(k.size(-1))
        return self.drop(self.weights(scores, self.seen(q.size(2)))) @ v

    def scores(self, q, k):
        return q @ k.mT

    def weights(self, scores, seen):
        return scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)

    def seen(self, T):
        return torch.ones(T, T, dtype=torch.bool).tril()


class Block(nn.Module):
    def __init__(self, d, h, dropout, bias, attention):
        super().__init__()
        self.ln1 = nn.LayerNorm(d)
        self.attn = attention(d, h, dropout, bias)
        self.ln2 = nn.LayerNorm(d)
        self.fc = nn.Linear(d, 4 * d, bias=bias)
        self.out = nn.Linear(4 * d, d, bias=bias)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attended(x)
        return x + self.fed_forward(x)

    def attended(self, x):
        return self.attn(self.ln1(x))

    def fed_forward(self, x):
        return self.drop(self.out(self.activation(self.fc(self.ln2(x)))))

    def activation(self, x):
        return F.gelu(x)


class GPT(nn.Module):
    block, attention = Block, Attn

    def __init__(self, vocab_size=48, block_size=32, n_layer=2, n_head=4, n_embd=32, dropout=0.1, bias=True):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(self.block(n_embd, n_head, dropout, bias, self.attention) for _ in range(n_layer))
        self.lnf = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab_size, bias=False)
        self.apply(self._init)
        self.head.weight = self.wte.weight

    def _init(self, m):
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=0.02)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Embedding):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, ids):
        x = self.drop(self.embed(ids))
        for block in self.layers():
            x = block(x)
        return self.head(self.lnf(x))

    def embed(self, ids):
        return self.wte(ids) + self.positions(ids.shape[1])

    def positions(self, T):
        return self.wpe(torch.arange(T))

    def layers(self):
        return self.blocks
