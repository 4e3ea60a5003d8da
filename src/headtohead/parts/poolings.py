"""Poolings: from token vectors x (B, T, D) to one vector per text (B, D). `keep` (B, T) is true at real tokens.

A text without real tokens gives zeros.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.spec import Dims, Part, knob


class Pooling(Part, family="pooling"):
    """How the vectors of a text become one vector. Padding is ignored.

    A pooling without weights defines `pool`; one with weights defines `build`.
    """

    reads_all: ClassVar[bool] = True  # False: only the first token, so the pattern must let it see the others

    def pool(self, x: Tensor, keep: Tensor) -> Tensor:
        """Map x (B, T, D) and keep (B, T) to (B, D)."""
        raise InputError(f"{type(self).__name__} defines neither pool(x, keep) nor build(dims)")

    def build(self, dims: Dims) -> nn.Module:
        """Build a module that maps x (B, T, D) and keep (B, T) to (B, D)."""
        return Pool(self)


class Pool(nn.Module):
    """The module of a pooling without weights."""

    def __init__(self, spec: Pooling) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return self.spec.pool(x, keep)


class Mean(Pooling):
    """The mean over the real tokens."""

    equation: ClassVar[str] = "Σ_t keep_t x_t / Σ_t keep_t"
    reference: ClassVar[str] = "Reimers and Gurevych 2019, Sentence-BERT"

    def pool(self, x: Tensor, keep: Tensor) -> Tensor:
        count = keep.sum(dim=1, keepdim=True).clamp(min=1)
        return (x * keep[:, :, None]).sum(dim=1) / count


class First(Pooling):
    """The first real token."""

    equation: ClassVar[str] = "x_t,  t = first position with keep"
    reference: ClassVar[str] = "Devlin et al. 2018, BERT"
    reads_all: ClassVar[bool] = False

    def pool(self, x: Tensor, keep: Tensor) -> Tensor:
        first = keep.int().argmax(dim=1)  # (B,), 0 for a text without real tokens
        picked = x[torch.arange(len(x), device=x.device), first]
        return picked * keep.any(dim=1, keepdim=True)


class Max(Pooling):
    """The largest value of each feature over the real tokens."""

    equation: ClassVar[str] = "max_t x_t over t with keep_t"
    reference: ClassVar[str] = "Conneau et al. 2017, InferSent"

    def pool(self, x: Tensor, keep: Tensor) -> Tensor:
        largest = x.masked_fill(~keep[:, :, None], -torch.inf).amax(dim=1)
        return torch.where(keep.any(dim=1, keepdim=True), largest, 0)


class AttentionPooling(Pooling):
    """A weighted mean: the weights are a softmax over the text of products with learned queries, one for each head."""

    equation: ClassVar[str] = "[ Σ_t a_ht x_ht ]_h,  a_ht = softmax_t( <q_h, x_ht> / sqrt(D/H) )  over t with keep_t"
    reference: ClassVar[str] = (
        "Lin et al. 2017, A Structured Self-attentive Sentence Embedding; Lee et al. 2019, Set Transformer"
    )

    heads: int = knob(default=1, ge=1, help="H, parts of the vectors that are weighted separately")

    def build(self, dims: Dims) -> nn.Module:
        if dims.width % self.heads:
            raise InputError(f"{self} splits a width of {dims.width}: choose a number of heads that divides it")
        return AttentionPool(dims.width, self.heads)


class AttentionPool(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(heads, width // heads))  # at the start, the mean

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = x.unflatten(2, self.queries.shape)  # (B, T, H, d)
        scores = (x * self.queries).sum(dim=3) / self.queries.shape[1] ** 0.5  # (B, T, H)
        a = scores.masked_fill(~keep[:, :, None], torch.finfo(x.dtype).min).softmax(dim=1) * keep[:, :, None]
        return (a[..., None] * x).sum(dim=1).flatten(1)
