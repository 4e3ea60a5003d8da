"""A correct rotary language model with grouped queries and a cache; its neighbours turn it wrongly."""

import torch
from torch import nn
from torch.nn import functional as F


def rope(x, pos, base=10000.0):
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    ang = pos.to(x.dtype)[:, None] * inv
    cos, sin = torch.cat([ang, ang], -1).cos(), torch.cat([ang, ang], -1).sin()
    half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1)
    return x * cos + half * sin


class Attn(nn.Module):
    def __init__(self, d, h, kv, turn):
        super().__init__()
        self.h, self.kv, self.hd, self.turn = h, kv, d // h, turn
        self.q = nn.Linear(d, h * self.hd, bias=False)
        self.k = nn.Linear(d, kv * self.hd, bias=False)
        self.v = nn.Linear(d, kv * self.hd, bias=False)
        self.o = nn.Linear(d, d, bias=False)

    def forward(self, x, past):
        B, T, C = x.shape
        q = self.q(x).view(B, T, self.h, self.hd).transpose(1, 2)
        k = self.k(x).view(B, T, self.kv, self.hd).transpose(1, 2)
        v = self.v(x).view(B, T, self.kv, self.hd).transpose(1, 2)
        n = 0 if past is None else past[0].shape[2]
        pos = torch.arange(n, n + T)
        q, k, v = self.turn(q, k, v, pos)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        new = (k, v)
        k, v = k.repeat_interleave(self.h // self.kv, 1), v.repeat_interleave(self.h // self.kv, 1)
        S = k.shape[2]
        mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).reshape(B, T, C)), new


class RMS(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.w * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Block(nn.Module):
    def __init__(self, d, h, kv, turn):
        super().__init__()
        self.n1, self.n2, self.attn = RMS(d), RMS(d), Attn(d, h, kv, turn)
        self.gate, self.up, self.down = (
            nn.Linear(d, 64, bias=False),
            nn.Linear(d, 64, bias=False),
            nn.Linear(64, d, bias=False),
        )

    def forward(self, x, past):
        a, new = self.attn(self.n1(x), past)
        x = x + a
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), new


class Llama(nn.Module):
    @staticmethod
    def turn(q, k, v, pos):
        return rope(q, pos), rope(k, pos), v

    def __init__(self, vocab=64, dim=32, n_layers=2, n_heads=4, n_kv_heads=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Block(dim, n_heads, n_kv_heads, self.turn) for _ in range(n_layers))
        self.norm, self.head = RMS(dim), nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, cache=None):
        x, out = self.tok(ids), []
        for i, layer in enumerate(self.layers):
            x, new = layer(x, None if cache is None else cache[i])
            out.append(new)
        return self.head(self.norm(x)), out
