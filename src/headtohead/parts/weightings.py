"""Weightings: how scores become the weights of the values. Softmax is the default.

Shapes: scores and weights (B, H, Tq, Tk). A score of −inf is a key that the query may not see; its weight must be zero.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.parts.layer import Layer
from headtohead.spec import Part, knob


class WeightingHooks(nn.Module):
    """The module of a weighting. Maps scores (B, H, Tq, Tk) to weights of the same shape."""

    @property
    def neutral(self) -> bool:
        """Whether it is plain softmax, so that fused attention can be used."""
        return type(self).forward is WeightingHooks.forward

    def forward(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)


class Weighting(Part, family="weighting"):
    """How scores become the weights of the values."""

    # Claims about the weights of a query; the audit checks them.
    sums_to_one: ClassVar[bool] = False
    at_most_one: ClassVar[bool] = False  # their sum never exceeds one
    dense: ClassVar[bool] = True  # every key that may be seen has a weight above zero

    @abc.abstractmethod
    def build(self, layer: Layer) -> WeightingHooks:
        """Build the module for one layer."""


class Softmax(Weighting):
    """Exponentials divided by their sum."""

    equation: ClassVar[str] = "a_ij = exp(s_ij) / Σ_k exp(s_ik)"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2.1"
    sums_to_one: ClassVar[bool] = True

    def build(self, layer: Layer) -> WeightingHooks:
        return WeightingHooks()


class OffByOne(Weighting):
    """Softmax with one more score of zero, whose weight is dropped: a query can attend to nothing."""

    equation: ClassVar[str] = "a_ij = exp(s_ij) / (1 + Σ_k exp(s_ik))"
    reference: ClassVar[str] = "Miller 2023, Attention Is Off By One"
    at_most_one: ClassVar[bool] = True

    def build(self, layer: Layer) -> WeightingHooks:
        return OffByOneHooks()


class OffByOneHooks(WeightingHooks):
    def forward(self, scores: Tensor) -> Tensor:
        return F.pad(scores, (0, 1)).softmax(dim=-1)[..., :-1]


class LearnedSinks(Weighting):
    """Softmax with one more score, learned for each head, whose weight is dropped: a query can attend to nothing."""

    equation: ClassVar[str] = "a_ij = exp(s_ij) / (exp(sink_h) + Σ_k exp(s_ik))"
    reference: ClassVar[str] = "OpenAI 2025, gpt-oss-120b & gpt-oss-20b Model Card, section 2.2"
    at_most_one: ClassVar[bool] = True

    start: float = knob(default=0.0, help="the learned score at the start")

    def build(self, layer: Layer) -> WeightingHooks:
        return LearnedSinksHooks(layer.dims.heads, self.start)


class LearnedSinksHooks(WeightingHooks):
    def __init__(self, heads: int, start: float) -> None:
        super().__init__()
        self.sinks = nn.Parameter(torch.full((heads,), start))

    def forward(self, scores: Tensor) -> Tensor:
        sinks = self.sinks[:, None, None].expand(*scores.shape[:-1], 1)  # (B, H, Tq, 1)
        return torch.cat([scores, sinks], dim=-1).softmax(dim=-1)[..., :-1]


class Sigmoid(Weighting):
    """A sigmoid of every score by itself: keys do not compete for weight.

    The bias keeps the sum of the weights near one at the start. Without it the sum grows with the number of keys.
    """

    equation: ClassVar[str] = "a_ij = sigmoid(s_ij − log n),  n = block, or the number of keys that i may see"
    reference: ClassVar[str] = "Ramapuram et al. 2024, Theory, Analysis, and Best Practices for Sigmoid Self-Attention"

    n: Literal["block", "keys", "one"] = knob(
        default="block", help="block: the longest text; keys: the keys that the query may see; one: no bias"
    )

    def build(self, layer: Layer) -> WeightingHooks:
        return SigmoidHooks(self.n, layer.dims.block)


class SigmoidHooks(WeightingHooks):
    def __init__(self, n: str, block: int) -> None:
        super().__init__()
        self.counts_keys, self.bias = n == "keys", math.log(block) if n == "block" else 0.0

    def forward(self, scores: Tensor) -> Tensor:
        if self.counts_keys:
            keys = (scores > -torch.inf).sum(dim=-1, keepdim=True).clamp(min=1)
            return (scores - keys.to(scores.dtype).log()).sigmoid()
        return (scores - self.bias).sigmoid()


class Sparsemax(Weighting):
    """The point of the simplex that is nearest to the scores: low scores get a weight of exactly zero."""

    equation: ClassVar[str] = "a_ij = max(s_ij − τ_i, 0),  τ_i such that Σ_j a_ij = 1"
    reference: ClassVar[str] = "Martins and Astudillo 2016, From Softmax to Sparsemax"
    sums_to_one: ClassVar[bool] = True
    dense: ClassVar[bool] = False

    def build(self, layer: Layer) -> WeightingHooks:
        return SparsemaxHooks()


class SparsemaxHooks(WeightingHooks):
    def forward(self, scores: Tensor) -> Tensor:
        z = _below_largest(scores)
        inside = _inside(z, lambda count, total, _squares: (total - 1) / count)
        count = inside.sum(dim=-1, keepdim=True)
        threshold = ((z * inside).sum(dim=-1, keepdim=True) - 1) / count
        return ((z - threshold) * inside).masked_fill(scores == -torch.inf, 0)


class Entmax15(Weighting):
    """Between softmax and sparsemax: low scores get a weight of exactly zero, the others fall smoothly towards it."""

    equation: ClassVar[str] = "a_ij = max(s_ij / 2 − τ_i, 0)²,  τ_i such that Σ_j a_ij = 1"
    reference: ClassVar[str] = "Peters et al. 2019, Sparse Sequence-to-Sequence Models (entmax, α = 1.5)"
    sums_to_one: ClassVar[bool] = True
    dense: ClassVar[bool] = False

    def build(self, layer: Layer) -> WeightingHooks:
        return Entmax15Hooks()


class Entmax15Hooks(WeightingHooks):
    def forward(self, scores: Tensor) -> Tensor:
        z = _below_largest(scores / 2)
        inside = _inside(z, _entmax_threshold)
        count = inside.sum(dim=-1, keepdim=True)
        total, squares = (z * inside).sum(dim=-1, keepdim=True), (z.square() * inside).sum(dim=-1, keepdim=True)
        threshold = _entmax_threshold(count, total, squares)
        return ((z - threshold) * inside).square().masked_fill(scores == -torch.inf, 0)


def _entmax_threshold(count: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """Solve Σ (z − τ)² = 1 over `count` scores with the given sum and sum of squares."""
    mean = total / count
    return mean - ((1 - squares) / count + mean.square()).clamp(min=0).sqrt()


def _below_largest(scores: Tensor) -> Tensor:
    """Subtract the largest score of each row, and cut at −2: a score below −1 gets no weight."""
    largest = scores.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    return (scores - largest).clamp(min=-2)


@torch.no_grad()
def _inside(z: Tensor, threshold: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """True at the scores that get a weight. The threshold of the k largest scores is computed from k, their sum and the
    sum of their squares; the largest k for which the k-th score exceeds it is the number of weights."""
    ranked = z.sort(dim=-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    exceeds = ranked > threshold(count, ranked.cumsum(dim=-1), ranked.square().cumsum(dim=-1))
    last = exceeds.sum(dim=-1, keepdim=True).clamp(min=1) - 1
    return z >= ranked.gather(-1, last)
