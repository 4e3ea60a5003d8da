"""Scores: what happens to the products of queries and keys before a position adds its bias and softmax weighs them.

    a_ij = weigh_j( scores( scale · <q_i, k_j> / sqrt(d) ) + bias_ij ),   then mix(a)

Shapes: scores and weights (B, H, Tq, Tk).
"""

from __future__ import annotations

import abc
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from headtohead.parts.layer import Layer
from headtohead.spec import Part, knob


class ScoreHooks(nn.Module):
    """The module of a score part. A hook that is not overridden changes nothing."""

    @property
    def neutral(self) -> bool:
        """Whether both hooks change nothing, so that fused attention can be used."""
        kind = type(self)
        return kind.forward is ScoreHooks.forward and kind.mix is ScoreHooks.mix

    def forward(self, scores: Tensor) -> Tensor:
        """Change the scores, before the bias of the position and the mask."""
        return scores

    def mix(self, weights: Tensor) -> Tensor:
        """Change the weights, after softmax."""
        return weights


class Scores(Part, family="scores"):
    """What happens to the products of queries and keys before softmax."""

    @property
    def mixes_weights(self) -> bool:
        """Whether weights are changed after softmax, so that they can have any sign and sum."""
        return False

    @abc.abstractmethod
    def build(self, layer: Layer) -> ScoreHooks:
        """Build the module for one layer."""


class PlainScores(Scores):
    """Products of queries and keys, unchanged."""

    equation: ClassVar[str] = "s_ij = scale · <q_i, k_j> / sqrt(d)"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2.1"

    def build(self, layer: Layer) -> ScoreHooks:
        return ScoreHooks()


class Softcap(Scores):
    """Scores that cannot exceed a limit: a tanh bends them smoothly."""

    equation: ClassVar[str] = "s_ij ← cap · tanh(s_ij / cap)"
    reference: ClassVar[str] = "Gemma Team 2024, Gemma 2, section 2"

    cap: float = knob(default=50.0, gt=0, help="the limit of a score")

    def build(self, layer: Layer) -> ScoreHooks:
        return SoftcapHooks(self.cap)


class SoftcapHooks(ScoreHooks):
    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, scores: Tensor) -> Tensor:
        return self.cap * torch.tanh(scores / self.cap)


class TalkingHeads(Scores):
    """Heads that exchange their scores before softmax, and their weights after it."""

    equation: ClassVar[str] = "s_h ← s_h + Σ_g before_hg · s_g,  a_h ← a_h + Σ_g after_hg · a_g"
    reference: ClassVar[str] = "Shazeer et al. 2020, Talking-Heads Attention"

    at: Literal["both", "before", "after"] = knob(default="both", help="before softmax, after it, or at both places")

    @property
    def mixes_weights(self) -> bool:
        return self.at != "before"

    def build(self, layer: Layer) -> ScoreHooks:
        return TalkingHeadsHooks(layer.dims.heads, self.at)


class TalkingHeadsHooks(ScoreHooks):
    def __init__(self, heads: int, at: str) -> None:
        super().__init__()
        # zeros: heads start as in plain attention
        self.before = None if at == "after" else nn.Parameter(torch.zeros(heads, heads))
        self.after = None if at == "before" else nn.Parameter(torch.zeros(heads, heads))

    def forward(self, scores: Tensor) -> Tensor:
        return scores if self.before is None else scores + _exchanged(self.before, scores)

    def mix(self, weights: Tensor) -> Tensor:
        return weights if self.after is None else weights + _exchanged(self.after, weights)


def _exchanged(matrix: Tensor, heads: Tensor) -> Tensor:
    """Return Σ_g matrix_hg · heads_g for heads (B, H, Tq, Tk)."""
    return torch.einsum("hg,bgqk->bhqk", matrix, heads)
