"""Outputs: what happens to the logits of a language model before softmax. Shapes: z (…, V) logits."""

from __future__ import annotations

import abc
from typing import ClassVar

import torch
from torch import Tensor, nn

from headtohead.spec import Dims, Part, knob


class OutputHooks(nn.Module):
    """The module of an output. Maps logits z (…, V) to the same shape, each row separately."""

    @property
    def neutral(self) -> bool:
        """Whether it changes nothing, so that the faster loss can be used."""
        return type(self).forward is OutputHooks.forward

    def forward(self, z: Tensor) -> Tensor:
        """Return the logits unchanged."""
        return z


class Output(Part, family="output"):
    """What happens to the logits of a language model."""

    @abc.abstractmethod
    def build(self, dims: Dims, vocab: int) -> OutputHooks:
        """Build the module."""


class PlainOutput(Output):
    """The logits as the head computes them."""

    equation: ClassVar[str] = "z = W · x"
    reference: ClassVar[str] = "Bengio et al. 2003, A Neural Probabilistic Language Model"

    def build(self, dims: Dims, vocab: int) -> OutputHooks:
        return OutputHooks()


class CappedOutput(Output):
    """Logits that cannot exceed a limit: a tanh bends them smoothly."""

    equation: ClassVar[str] = "z ← cap · tanh(z / cap)"
    reference: ClassVar[str] = "Gemma Team 2024, Gemma 2, section 2"

    cap: float = knob(default=30.0, gt=0, help="the limit of a logit")

    def build(self, dims: Dims, vocab: int) -> OutputHooks:
        return CappedHooks(self.cap)


class CappedHooks(OutputHooks):
    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, z: Tensor) -> Tensor:
        return self.cap * torch.tanh(z / self.cap)
