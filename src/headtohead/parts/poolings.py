"""Poolings: token states x (B, T, D) and keep (B, T), true at real tokens, → one vector a text (B, D).

A text without any real token gives zeros.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import torch
from torch import Tensor

from headtohead.spec import Part


class Pooling(Part, family="pooling"):
    """How a text becomes one vector; padding is ignored."""

    reads_all: ClassVar[bool] = True  # false: the first token alone, so the pattern must show it the others

    @abc.abstractmethod
    def pool(self, x: Tensor, keep: Tensor) -> Tensor: ...


class Mean(Pooling):
    """The mean of the real tokens."""

    equation: ClassVar[str] = "Σ_t keep_t x_t / Σ_t keep_t"
    reference: ClassVar[str] = "Reimers and Gurevych 2019, Sentence-BERT"

    def pool(self, x: Tensor, keep: Tensor) -> Tensor:
        count = keep.sum(dim=1, keepdim=True).clamp(min=1)
        return (x * keep[:, :, None]).sum(dim=1) / count


class First(Pooling):
    """The first real token."""

    equation: ClassVar[str] = "x_t,  t the first kept position"
    reference: ClassVar[str] = "Devlin et al. 2018, BERT"
    reads_all: ClassVar[bool] = False

    def pool(self, x: Tensor, keep: Tensor) -> Tensor:
        first = keep.int().argmax(dim=1)  # (B,), 0 where nothing is kept
        picked = x[torch.arange(len(x), device=x.device), first]
        return picked * keep.any(dim=1, keepdim=True)


class Max(Pooling):
    """The largest value of each feature over the real tokens."""

    equation: ClassVar[str] = "max_t x_t over kept t"
    reference: ClassVar[str] = "Conneau et al. 2017, InferSent"

    def pool(self, x: Tensor, keep: Tensor) -> Tensor:
        largest = x.masked_fill(~keep[:, :, None], -torch.inf).amax(dim=1)
        return torch.where(keep.any(dim=1, keepdim=True), largest, 0)
