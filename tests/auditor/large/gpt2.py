"""Modules of GPT-2's size: 124 million weights. CORRECT have no bug, BUGS have one each.

`sized` makes one of another size, above the limit from which the audit is reduced.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

CORRECT = ("GPT2", "Masked", "Cached", "HuggingFace")
BUGS = {  # class: the check that is meant for its bug
    "MaskOffByOne": "future-tokens",
    "MaskForShortTexts": "future-tokens",
    "MaskIgnored": "padding-left",
    "CountOfRealTokens": "padding-right",
    "LayersInList": "registered",
    "UnusedWeight": "gradients",
    "DropoutInEvaluation": "dropout",
    "CacheOffByOne": "cache",
    "TiedByCopy": "tied",
    "BranchDetached": "derivative",
    "NanOfZeros": "finite",
    "NormOverBatch": "batch-rows",
    "RareTokensShareARow": "rows",
    "SeededFromTheSystem": "seed",
    "ScaleNotSaved": "state-dict",
    "DropoutIgnored": "options",
    "MaskOnFastPathForgotten": "paths",
}


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, keep=None, past=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        if past is not None:
            k, v = self.extended(past, k, v)
        seen = self.seen(q.shape[2], k.shape[2])
        if keep is not None:
            seen = seen & self.kept(keep)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~seen, torch.finfo(q.dtype).min)
        weights = F.dropout(scores.softmax(dim=-1), self.dropout, self.drops())
        return self.out((weights @ v).transpose(1, 2).flatten(2))

    def seen(self, queries, keys):
        return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)

    def kept(self, keep):
        return keep[:, None, None, :]

    def extended(self, past, k, v):
        if self in past:
            k, v = (torch.cat(pair, dim=2) for pair in zip(past[self], (k, v), strict=True))
        past[self] = k, v
        return k, v

    def drops(self):
        return self.training


class Block(nn.Module):
    attention = Attention

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = self.attention(width, heads, dropout)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, keep=None, past=None):
        x = x + self.drop(self.attend(self.norm1(x), keep, past))
        return x + self.drop(self.feed_forward(self.norm2(x)))

    def feed_forward(self, x):
        return self.down(F.gelu(self.up(x)))


class GPT2(nn.Module):
    """A correct language model of GPT-2's size."""

    block = Block

    def __init__(self, vocab=50257, block=1024, width=768, heads=12, layers=12, dropout=0.1) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(block, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(self.block(width, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.apply(self.initialise)
        self.tie()

    def initialise(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def tie(self):
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        return self.logits(ids)

    def logits(self, ids, keep=None, past=None):
        before = 0
        if past is not None:
            before = past.get("tokens", 0)
            past["tokens"] = before + ids.shape[1]
        x = self.drop(self.embed(ids, before))
        for block in self.blocks:
            x = block(x, keep, past)
        return self.head(self.norm(x))

    def embed(self, ids, before=0):
        return self.tokens(ids) + self.positions(self.places(ids, before))

    def places(self, ids, before):
        return before + torch.arange(ids.shape[1])


class Masked(GPT2):
    """The same, with a padding mask. Positions count real tokens."""

    def forward(self, ids, keep=None):
        keep = torch.ones_like(ids, dtype=torch.bool) if keep is None else keep
        x = self.drop(self.tokens(ids) + self.positions((keep.long().cumsum(dim=1) - 1).clamp(min=0)))
        for block in self.blocks:
            x = block(x, keep)
        return self.head(self.norm(x))


class Cached(GPT2):
    """The same, with a cache that is filled in place."""

    def forward(self, ids, cache=None):
        return self.logits(ids, past=cache)


class HuggingFace(nn.Module):
    """The GPT-2 of transformers."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        self.model = GPT2LMHeadModel(GPT2Config())

    def forward(self, ids, attention_mask=None):
        return self.model(ids, attention_mask=attention_mask).logits


# -- bugs --------------------------------------------------------------------------------------------------------------


class MaskOffByOne(GPT2):
    class block(Block):  # noqa: N801
        class attention(Attention):  # noqa: N801
            def seen(self, queries, keys):
                return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries + 1)


class MaskForShortTexts(GPT2):
    class block(Block):  # noqa: N801
        class attention(Attention):  # noqa: N801
            def seen(self, queries, keys):
                seen = torch.ones(queries, keys, dtype=torch.bool)
                seen[:32, :32] = seen[:32, :32].tril()
                return seen


class MaskIgnored(Masked):
    def forward(self, ids, keep=None):
        return super().forward(ids)


class CountOfRealTokens(Masked):
    def forward(self, ids, keep=None):
        out = super().forward(ids, keep)
        return out if keep is None else out * keep.float().mean(dim=1)[:, None, None]


class LayersInList(GPT2):
    def __init__(self, vocab=50257, block=1024, width=768, heads=12, layers=12, dropout=0.1) -> None:
        super().__init__(vocab, block, width, heads, layers, dropout)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


class UnusedWeight(GPT2):
    def __init__(self, vocab=50257, block=1024, width=768, heads=12, layers=12, dropout=0.1) -> None:
        super().__init__(vocab, block, width, heads, layers, dropout)
        self.spare = nn.Linear(width, width)


class DropoutInEvaluation(GPT2):
    class block(Block):  # noqa: N801
        class attention(Attention):  # noqa: N801
            def drops(self):
                return True


class CacheOffByOne(Cached):
    def places(self, ids, before):
        return max(0, before - 1) + torch.arange(ids.shape[1])


class TiedByCopy(GPT2):
    def tie(self):
        self.head.weight = nn.Parameter(self.tokens.weight.detach().clone())


class BranchDetached(GPT2):
    class block(Block):  # noqa: N801
        def forward(self, x, keep=None, past=None):
            x = x + self.drop(self.attend(self.norm1(x.detach()), keep, past))
            return x + self.drop(self.feed_forward(self.norm2(x)))


class NanOfZeros(GPT2):
    def embed(self, ids, before=0):
        x = self.tokens(ids)
        return x / x.norm(dim=-1, keepdim=True) + self.positions(self.places(ids, before))


class NormOverBatch(GPT2):
    def embed(self, ids, before=0):
        x = super().embed(ids, before)
        return x / (x.std(dim=0, unbiased=False, keepdim=True) + 1)


class RareTokensShareARow(GPT2):
    def embed(self, ids, before=0):
        return super().embed(ids.clamp(max=50_000), before)


class SeededFromTheSystem(GPT2):
    def initialise(self, module):
        super().initialise(module)
        if isinstance(module, nn.LayerNorm):
            nn.init.normal_(module.weight, 1.0, 0.02, generator=self.system)

    @property
    def system(self):
        made = torch.Generator()
        made.seed()
        return made


class ScaleNotSaved(GPT2):
    def __init__(self, vocab=50257, block=1024, width=768, heads=12, layers=12, dropout=0.1) -> None:
        super().__init__(vocab, block, width, heads, layers, dropout)
        self.register_buffer("scale", 1 + 0.1 * torch.randn(width), persistent=False)

    def embed(self, ids, before=0):
        return super().embed(ids, before) * self.scale


class DropoutIgnored(GPT2):
    class block(Block):  # noqa: N801
        def __init__(self, width, heads, dropout) -> None:
            super().__init__(width, heads, 0.1)

    def logits(self, ids, keep=None, past=None):
        self.drop.p = 0.1
        return super().logits(ids, keep, past)


class MaskOnFastPathForgotten(GPT2):
    class block(Block):  # noqa: N801
        class attention(Attention):  # noqa: N801
            def __init__(self, width, heads, dropout) -> None:
                super().__init__(width, heads, dropout)
                self.flash = False

            def forward(self, x, keep=None, past=None):
                if not self.flash:
                    return super().forward(x, keep, past)
                q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
                return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
