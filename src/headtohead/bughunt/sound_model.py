"""A decoder language model and an encoder classifier. Ids are (B, T), logits are (B, T, vocab) or (B, classes)."""

import math

import torch
from torch import nn
from torch.nn import functional as F

PAD = 0  # the id of padding


class Norm(nn.Module):
    """Gives each token's vector mean 0 and variance 1, then a learned gain and shift."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        x = x - x.mean(dim=-1, keepdim=True)
        variance = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(variance + 1e-5) * self.gain + self.shift


class Attention(nn.Module):
    """Multi-head attention. `past` holds the keys and values of earlier tokens."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)

    def split(self, x):  # (B, T, width) to (B, heads, T, size)
        B, T, _ = x.shape
        return x.view(B, T, self.heads, self.size).transpose(1, 2)

    def forward(self, x, allowed, past=None):
        q = self.split(self.query(x))
        k = self.split(self.key(x))
        v = self.split(self.value(x))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(self.size)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        weights = self.drop(weights)
        y = (weights @ v).transpose(1, 2).flatten(2)  # (B, T, width)
        return self.out(y), (k, v)


class Block(nn.Module):
    """Attention, then a feed-forward network, each behind a norm and beside a residual connection."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.attention = Attention(width, heads, dropout)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, allowed, past=None):
        attended, present = self.attention(self.norm1(x), allowed, past)
        x = x + self.drop(attended)
        hidden = self.up(self.norm2(x))
        hidden = F.gelu(hidden)
        x = x + self.drop(self.down(hidden))
        return x, present


class Trunk(nn.Module):
    """Embeddings of tokens and positions, blocks, and a last norm."""

    def __init__(self, vocab, block, width, heads, layers, dropout):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.places = nn.Embedding(block, width)
        self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.norm = Norm(width)
        self.drop = nn.Dropout(dropout)
        self.apply(initialise)

    def forward(self, ids, allowed, cache=None):
        start = 0 if cache is None else cache[0][0].shape[2]  # tokens in the cache
        places = torch.arange(start, start + ids.shape[1])
        x = self.tokens(ids) + self.places(places)
        x = self.drop(x)
        presents = []
        for n, block in enumerate(self.blocks):
            past = None if cache is None else cache[n]
            x, present = block(x, allowed, past)
            presents.append(present)
        return self.norm(x), presents


def initialise(module):
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.05)
        nn.init.zeros_(module.bias)


class Decoder(nn.Module):
    """A language model: each token sees itself and the tokens before it."""

    def __init__(self, vocab=40, block=32, width=32, heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.trunk = Trunk(vocab, block, width, heads, layers, dropout)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.trunk.tokens.weight

    def forward(self, ids, cache=None):
        before = 0 if cache is None else cache[0][0].shape[2]
        i = torch.arange(before, before + ids.shape[1])[:, None]
        j = torch.arange(before + ids.shape[1])[None, :]
        x, cache = self.trunk(ids, j <= i, cache)
        return self.head(x), cache

    def loss(self, ids):
        """The mean cross-entropy of predicting the next token. Padding is not predicted."""
        logits, _ = self(ids[:, :-1])
        targets = ids[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)

    @torch.no_grad()
    def generate(self, ids, n):
        """Append the n most probable tokens, one by one, with the cache."""
        cache, new = None, ids
        for _ in range(n):
            logits, cache = self(new, cache)
            new = logits[:, -1].argmax(dim=-1, keepdim=True)
            ids = torch.cat([ids, new], dim=1)
        return ids


class Classifier(nn.Module):
    """An encoder: each token sees all real tokens; the mean of the real tokens is classified."""

    def __init__(self, vocab=40, block=32, width=32, heads=4, layers=2, classes=3, dropout=0.1):
        super().__init__()
        self.trunk = Trunk(vocab, block, width, heads, layers, dropout)
        self.head = nn.Linear(width, classes)

    def forward(self, ids):
        real = ids != PAD  # (B, T)
        x, _ = self.trunk(ids, real[:, None, None, :])
        total = (x * real[:, :, None]).sum(dim=1)
        count = real.sum(dim=1, keepdim=True).clamp(min=1)
        return self.head(total / count)


def make_optimizer(model, lr=1e-3, decay=0.1):
    """AdamW. Matrices are decayed; gains, shifts and biases are not."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr)


def train_step(model, optimizer, loss):
    """One update, with the norm of the gradient limited to 1."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
