"""Part 2, solution: a language model with a cache, and greedy text."""

import math

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x, bias=None, memory=None):
        """`memory` is a dict that holds earlier keys and values; `bias` (heads, queries, keys) is added to scores."""
        q, k, v = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
        if memory is not None:
            if memory:
                k, v = torch.cat([memory["k"], k], dim=2), torch.cat([memory["v"], v], dim=2)
            memory.update(k=k, v=v)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        new, all_ = q.shape[2], k.shape[2]
        later = torch.arange(all_, device=x.device) > torch.arange(all_ - new, all_, device=x.device)[:, None]
        if bias is not None:
            scores = scores + bias
        weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class CausalBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x, bias=None, memory=None):
        x = x + self.attention(self.norm1(x), bias, memory)
        return x + self.feedforward(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, vocab, block, width=64, heads=2, layers=4):
        super().__init__()
        self.block = block
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(block, width)
        self.blocks = nn.ModuleList(CausalBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, vocab, bias=False)

    def forward(self, ids, cache=None):
        before = 0
        if cache is not None:
            before = cache.get("length", 0)
            cache["length"] = before + ids.shape[1]
        x = self.embed(ids, before)
        for n, block in enumerate(self.blocks):
            memory = None if cache is None else cache.setdefault(n, {})
            x = block(x, self.bias(ids.shape[1], before), memory)
        return self.out(self.norm(x))

    def embed(self, ids, before):
        places = torch.arange(before, before + ids.shape[1], device=ids.device)
        return self.tokens(ids) + self.positions(places)

    def bias(self, new, before):
        return None


def generate(model, ids, tokens):
    """Continue texts with the most probable token, `tokens` times. The model reads the last `block` tokens."""
    with torch.no_grad():
        for _ in range(tokens):
            best = model(ids[:, -model.block :])[:, -1].argmax(dim=-1)
            ids = torch.cat([ids, best[:, None]], dim=1)
    return ids
