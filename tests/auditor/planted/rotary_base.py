"""A correct rotary language model with grouped queries and a cache. Planted bugs override one of its methods."""

import torch
from torch import nn
from torch.nn import functional as F


def twice(angles):
    return torch.cat([angles, angles], -1)


def quarter_turn(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], -1)


def rope(x, pos, repeat=twice, turned=quarter_turn, base=10000.0):
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    angles = repeat(pos.to(x.dtype)[:, None] * inv)
    return x * angles.cos() + turned(x) * angles.sin()


class Attn(nn.Module):
    def __init__(self, d, h, kv):
        super().__init__()
        self.h, self.kv = h, kv
        self.q = nn.Linear(d, d, bias=False)
        self.k = nn.Linear(d, kv * (d // h), bias=False)
        self.v = nn.Linear(d, kv * (d // h), bias=False)
        self.o = nn.Linear(d, d, bias=False)

    def forward(self, x, past):
        T, first = x.shape[1], self.first_position(past)
        q, k, v = self.heads(self.q(x), self.h), self.heads(self.k(x), self.kv), self.heads(self.v(x), self.kv)
        q, k, v = self.turn(q, k, v, torch.arange(first, first + T))
        new = (k, v)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        cache = self.remembered((k, v), new)
        k, v = (t.repeat_interleave(self.h // self.kv, dim=1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.seen(T, k.shape[2], past))
        return self.o(y.transpose(1, 2).flatten(2)), cache

    def heads(self, x, n):  # (B, T, C) to (B, n, T, C/n)
        return x.unflatten(-1, (n, -1)).transpose(1, 2)

    def turn(self, q, k, v, pos):
        return rope(q, pos), rope(k, pos), v

    def first_position(self, past):
        return 0 if past is None else past[0].shape[2]

    def seen(self, T, S, past):
        return torch.ones(T, S, dtype=torch.bool).tril(S - T)

    def remembered(self, all, new):
        return all


class RMS(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Block(nn.Module):
    def __init__(self, d, attention):
        super().__init__()
        self.n1, self.n2, self.attn = RMS(d), RMS(d), attention
        self.gate, self.up = nn.Linear(d, 64, bias=False), nn.Linear(d, 64, bias=False)
        self.down = nn.Linear(64, d, bias=False)

    def forward(self, x, past):
        attended, new = self.attn(self.n1(x), past)
        x = x + attended
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), new


class Llama(nn.Module):
    attention = Attn

    def __init__(self, vocab=64, dim=32, n_layers=2, n_heads=4, n_kv_heads=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Block(dim, self.attention(dim, n_heads, n_kv_heads)) for _ in range(n_layers))
        self.norm, self.head = RMS(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, cache=None):
        x, new = self.tok(ids), []
        for n, layer in enumerate(self.layers):
            x, kept = layer(x, None if cache is None else cache[n])
            new.append(kept)
        return self.logits(self.norm(x)), new

    def logits(self, x):
        return self.head(x)
