"""Embeddings: from token ids to the vectors that positions and blocks work on.

The token table `tokens` is part of every model. An embedding changes the vectors x (B, T, D) that it gives for ids
(B, T). `keep` (B, T) is false at padding, None without padding. With a cache, the ids continue the text of earlier
calls, and `cache.states` keeps what is needed of them.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import torch
from torch import Tensor, nn

from headtohead.parts.sequence.shifts import causal_convolution
from headtohead.parts.sequence.state import LayerCache
from headtohead.spec import Dims, Part, knob

LAST = "last"  # the name of the last token in the cache


class EmbeddingHooks(nn.Module):
    """The module of an embedding."""

    @property
    def neutral(self) -> bool:
        """Whether it changes nothing, so that the model need not call it."""
        return type(self).forward is EmbeddingHooks.forward

    def forward(self, x: Tensor, ids: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        """Return the vectors of the tokens unchanged."""
        return x


class Embedding(Part, family="embedding"):
    """How token ids become vectors."""

    # Claims; the audit checks them.
    before: ClassVar[int] = 0  # how many earlier tokens the vector of a token depends on
    dense: ClassVar[bool] = True  # whether it depends on the vectors of those tokens, not only on their ids

    @abc.abstractmethod
    def build(self, dims: Dims) -> EmbeddingHooks:
        """Build the module."""


class PlainEmbedding(Embedding):
    """One learned vector for each token of the vocabulary."""

    equation: ClassVar[str] = "x_t = E[token_t]"
    reference: ClassVar[str] = "Bengio et al. 2003, A Neural Probabilistic Language Model"

    def build(self, dims: Dims) -> EmbeddingHooks:
        return EmbeddingHooks()


class BigramHash(Embedding):
    """A second table, indexed by a hash of a token and the token before it, is added to the token's vector."""

    equation: ClassVar[str] = "x_t = E[token_t] + F[ hash(token_(t−1), token_t) mod size ]"
    reference: ClassVar[str] = "Jordan et al. 2024, modded-nanogpt, log of records (bigram hash embedding)"
    before: ClassVar[int] = 1
    dense: ClassVar[bool] = False

    size: int = knob(default=4096, ge=1, le=1 << 24, help="rows of the second table")

    def build(self, dims: Dims) -> EmbeddingHooks:
        return BigramHooks(self.size, dims.width)


PRIME = (1 << 31) - 1
OF_PREVIOUS, OF_CURRENT = 1_540_483_477, 668_265_263  # arbitrary factors below PRIME
NO_TOKEN = -1  # stands for the token before the first one


class BigramHooks(EmbeddingHooks):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.bigrams = nn.Embedding(size, width)

    def forward(self, x: Tensor, ids: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        last = None if cache is None else cache.states.get(LAST)
        before, last = previous(ids, keep, last)
        if cache is not None:
            cache.states[LAST] = last
        return x + self.bigrams(hash_of(before, ids) % self.bigrams.num_embeddings)


def hash_of(before: Tensor, ids: Tensor) -> Tensor:
    """Return numbers from 0 to PRIME − 1 that depend on both tokens."""
    return ((before + 2) * OF_PREVIOUS + (ids + 1) * OF_CURRENT) % PRIME


def previous(ids: Tensor, keep: Tensor | None, last: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the real token before each token of ids (B, T), and the last one (B, 1). `last` (B, 1) is the last token
    of earlier calls; NO_TOKEN stands where there is none."""
    last = torch.full_like(ids[:, :1], NO_TOKEN) if last is None else last
    tokens = torch.cat([last, ids], dim=1)  # (B, 1 + T)
    if keep is None:
        return tokens[:, :-1], tokens[:, -1:]
    at = torch.arange(1, tokens.shape[1], device=ids.device)
    latest = torch.where(keep, at, 0).cummax(dim=1).values  # (B, T): where in `tokens` the latest real token is
    latest = torch.cat([torch.zeros_like(latest[:, :1]), latest], dim=1)
    tokens = tokens.gather(1, latest)
    return tokens[:, :-1], tokens[:, -1:]


class Smear(Embedding):
    """A share of the vector of the token before is added, through a gate that reads the token."""

    equation: ClassVar[str] = "x_t = E[token_t] + s · sigmoid(w · E[token_t]) · E[token_(t−1)],  s, w learned"
    reference: ClassVar[str] = "Jordan et al. 2024, modded-nanogpt, log of records (smear gate)"
    before: ClassVar[int] = 1

    start: float = knob(default=0.1, help="initial value of s")

    def build(self, dims: Dims) -> EmbeddingHooks:
        return SmearHooks(dims.width, self.start)


class SmearHooks(EmbeddingHooks):
    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(start))
        self.gate = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor, ids: Tensor, keep: Tensor | None, cache: LayerCache | None) -> Tensor:
        last = None if cache is None else cache.states.get(LAST)
        before, last = causal_convolution(x, x.new_tensor([[1, 0]]), None, last, keep)
        if cache is not None:
            cache.states[LAST] = last
        return x + self.scale * self.gate(x).sigmoid() * before
