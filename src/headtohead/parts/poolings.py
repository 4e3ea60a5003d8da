"""Poolings: from token vectors x (B, T, D) to one vector per text (B, D). `keep` (B, T) is true at real tokens.

A text without real tokens gives zeros.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import torch
from torch import Tensor

from headtohead.spec import Part


class Pooling(Part, family="pooling"):
    """How the vectors of a text become one vector. Padding is ignored."""

    reads_all: ClassVar[bool] = True  # False: only the first token, so the pattern must let it see the others

    @abc.abstractmethod
    def pool(self, x: Tensor, keep: Tensor) -> Tensor:
        """Map x (B, T, D) and keep (B, T) to (B, D)."""


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
