"""A correct language model in the style of GPT-2; its neighbours get one thing wrong."""

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
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q = q.view(B, T, self.h, C // self.h).transpose(1, 2)
        k = k.view(B, T, self.h, C // self.h).transpose(1, 2)
        v = v.view(B, T, self.h, C // self.h).transpose(1, 2)
        att = self.scores(q, k) / math.sqrt(k.size(-1))
        att = att.masked_fill(~self.seen(T), float("-inf"))
        att = self.drop(F.softmax(att, dim=-1))
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.proj(y)

    def scores(self, q, k):
        return q @ k.transpose(-2, -1)

    def seen(self, T):
        return torch.ones(T, T, dtype=torch.bool).tril()


class Block(nn.Module):
    attention = Attn

    def __init__(self, d, h, dropout, bias):
        super().__init__()
        self.ln1 = nn.LayerNorm(d)
        self.attn = self.attention(d, h, dropout, bias)
        self.ln2 = nn.LayerNorm(d)
        self.fc = nn.Linear(d, 4 * d, bias=bias)
        self.out = nn.Linear(4 * d, d, bias=bias)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.drop(self.out(F.gelu(self.fc(self.ln2(x)))))


class GPT(nn.Module):
    block = Block

    def __init__(self, vocab_size=48, block_size=32, n_layer=2, n_head=4, n_embd=32, dropout=0.1, bias=True):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([self.block(n_embd, n_head, dropout, bias) for _ in range(n_layer)])
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
        _B, T = ids.shape
        x = self.wte(ids) + self.wpe(torch.arange(T))
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.lnf(x))
