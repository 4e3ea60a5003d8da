"""Head fusions: how the outputs of the heads are combined before the output projection."""

from __future__ import annotations

import abc
import random
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from headtohead.spec import Dims, Part, knob


class FusionHooks(nn.Module):
    """The module of a fusion. Maps the heads' outputs o (B, H, T, d) to the same shape.

    `keep` (B, T) is true at real tokens; None means that there is no padding.
    """

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        """Return the heads unchanged."""
        return o


class Fusion(Part, family="fusion"):
    """How the outputs of the heads are combined before the output projection."""

    @property
    def causal(self) -> bool:
        """Whether the result at a token depends only on the heads of that token. The audit checks this claim."""
        return True

    @abc.abstractmethod
    def build(self, dims: Dims, layer: int) -> FusionHooks:
        """Build the module for one layer."""


class Concat(Fusion):
    """Heads side by side, in their natural order."""

    equation: ClassVar[str] = "[O_1 O_2 … O_H]"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2.2"

    def build(self, dims: Dims, layer: int) -> FusionHooks:
        return FusionHooks()


class Shuffle(Fusion):
    """Heads in a random order: one fixed order per layer, or a new order at each training step.

    With `each forward`, evaluation uses the natural order, so that the same text always gives the same result. A model
    trained with all orders has no reason to prefer one.
    """

    equation: ClassVar[str] = "[O_s(1) O_s(2) … O_s(H)],  s a random permutation"
    reference: ClassVar[str] = "course report 003, section 2.2.3"

    order: Literal["fixed", "each forward"] = knob(
        default="fixed", help="one order per layer, or a new order at each training step"
    )
    seed: int = knob(default=0, ge=0, help="seed of the fixed orders")

    def build(self, dims: Dims, layer: int) -> FusionHooks:
        return FixedShuffle(dims, self.seed, layer) if self.order == "fixed" else FreshShuffle()


class FixedShuffle(FusionHooks):
    def __init__(self, dims: Dims, seed: int, layer: int) -> None:
        super().__init__()
        rng = random.Random(f"{seed}/{layer}")
        self.order = list(range(dims.heads))
        while self.order == sorted(self.order) and dims.heads > 1:  # the natural order would be Concat
            rng.shuffle(self.order)

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        return o[:, self.order]


class FreshShuffle(FusionHooks):
    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        return o[:, torch.randperm(o.shape[1], device=o.device)] if self.training else o


class Shift(Fusion):
    """Heads rotated by a fixed number of places."""

    equation: ClassVar[str] = "[O_{1+by} … O_H O_1 … O_by]"
    reference: ClassVar[str] = "course report 003, section 2.2.3"

    by: int = knob(default=1, ge=1, help="number of places; a multiple of the number of heads changes nothing")

    def build(self, dims: Dims, layer: int) -> FusionHooks:
        return Shifted(self.by)


class Shifted(FusionHooks):
    def __init__(self, by: int) -> None:
        super().__init__()
        self.by = by

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        return o.roll(-self.by, dims=1)


class Reweight(Fusion):
    """Heads weighted by the norm of their output.

    A norm over the sequence, as in course report 003, sums over all tokens. In a causal model every token then depends
    on later tokens. A norm per token is causal. With `by=norm`, a norm over the sequence also grows with the square
    root of the length, so texts of other lengths than in training get weights that did not occur in training.
    """

    equation: ClassVar[str] = (
        "O_h · H·n_h / Σ_g n_g, or O_h · n_h;  n_h = norm of O_h over the sequence or at the token"
    )
    reference: ClassVar[str] = "course report 003, section 2.2.3"

    over: Literal["token", "sequence"] = knob(
        default="token", help="what the norm is taken over; sequence depends on later tokens"
    )
    by: Literal["share", "norm"] = knob(
        default="share", help="share: a head's norm divided by the mean norm; norm: the norm itself"
    )
    at: Literal["always", "training"] = knob(default="always", help="training: evaluation uses plain concatenation")

    @property
    def causal(self) -> bool:
        return self.over == "token"

    def build(self, dims: Dims, layer: int) -> FusionHooks:
        return Reweighted(self)


class Reweighted(FusionHooks):
    def __init__(self, spec: Reweight) -> None:
        super().__init__()
        self.norm_dims = (-2, -1) if spec.over == "sequence" else (-1,)
        self.shares = spec.by == "share"
        self.in_evaluation = spec.at == "always"

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        if not (self.training or self.in_evaluation):
            return o
        real = o if keep is None else o * keep[:, None, :, None]  # leave padding out of the norm
        n = torch.linalg.vector_norm(real, dim=self.norm_dims, keepdim=True)  # (B, H, T|1, 1)
        return o * (n * o.shape[1] / n.sum(dim=1, keepdim=True).clamp(min=1e-12) if self.shares else n)
