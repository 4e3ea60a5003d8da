"""Head fusions: how the outputs of the heads are laid side by side before the output projection."""

from __future__ import annotations

import abc
import random
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from headtohead.spec import Dims, Part, knob


class FusionHooks(nn.Module):
    """A fusion at work: o (B, H, T, d) and keep (B, T), true at real tokens, or None → (B, H, T, d)."""

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        """The heads as they are."""
        return o


class Fusion(Part, family="fusion"):
    """How the heads' outputs are arranged before the output projection."""

    @property
    def causal(self) -> bool:
        """Whether a token's fused heads depend on that token's heads alone; the audit proves it."""
        return True

    @abc.abstractmethod
    def build(self, dims: Dims, layer: int) -> FusionHooks: ...


class Concat(Fusion):
    """Heads side by side in their own order."""

    equation: ClassVar[str] = "[O_1 O_2 … O_H]"
    reference: ClassVar[str] = "Vaswani et al. 2017, Attention Is All You Need, section 3.2.2"

    def build(self, dims: Dims, layer: int) -> FusionHooks:
        return FusionHooks()


class Shuffle(Fusion):
    """Heads in a random order: one fixed order per layer, or a new one at each training step.

    A new order at each forward is drawn in training only. Evaluation uses the natural order, as good as any to a model
    trained on all of them, so that the same text always gets the same answer.
    """

    equation: ClassVar[str] = "[O_s(1) O_s(2) … O_s(H)],  s a random permutation"
    reference: ClassVar[str] = "document 003, section 2.2.3"

    order: Literal["fixed", "each forward"] = knob(
        default="fixed", help="one order per layer, or a new one each forward"
    )
    seed: int = knob(default=0, ge=0, help="which fixed orders")

    def build(self, dims: Dims, layer: int) -> FusionHooks:
        return FixedShuffle(dims, self.seed, layer) if self.order == "fixed" else FreshShuffle()


class FixedShuffle(FusionHooks):
    def __init__(self, dims: Dims, seed: int, layer: int) -> None:
        super().__init__()
        draw = random.Random(f"{seed}/{layer}")
        self.order = list(range(dims.heads))
        while self.order == sorted(self.order) and dims.heads > 1:
            draw.shuffle(self.order)

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        return o[:, self.order]


class FreshShuffle(FusionHooks):
    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        return o[:, torch.randperm(o.shape[1], device=o.device)] if self.training else o


class Shift(Fusion):
    """Heads moved along by a fixed number of places."""

    equation: ClassVar[str] = "[O_{1+by} … O_H O_1 … O_by]"
    reference: ClassVar[str] = "document 003, section 2.2.3"

    by: int = knob(default=1, ge=1, help="places; a multiple of the number of heads changes nothing")

    def build(self, dims: Dims, layer: int) -> FusionHooks:
        return Shifted(self.by)


class Shifted(FusionHooks):
    def __init__(self, by: int) -> None:
        super().__init__()
        self.by = by

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        return o.roll(-self.by, dims=1)


class Reweight(Fusion):
    """Heads weighted by the norm of what they say.

    Taken over the sequence, as in document 003, the norm of a head sums over all tokens, so in a causal model every
    token reads the future. Taken per token it is causal. The norm itself, not a head's share of all of them, also grows
    with the square root of the length: a text of another length than in training is weighted as none was.
    """

    equation: ClassVar[str] = "O_h · H·n_h / Σ_g n_g, or O_h · n_h;  n_h the norm of O_h, of the sequence or the token"
    reference: ClassVar[str] = "document 003, section 2.2.3"

    over: Literal["token", "sequence"] = knob(
        default="token", help="what the norm is taken over; sequence reads the future"
    )
    by: Literal["share", "norm"] = knob(default="share", help="a head's share of all norms, or the norm itself")
    at: Literal["always", "training"] = knob(default="always", help="training: plain concatenation in evaluation")

    @property
    def causal(self) -> bool:
        return self.over == "token"

    def build(self, dims: Dims, layer: int) -> FusionHooks:
        return Reweighted(self)


class Reweighted(FusionHooks):
    def __init__(self, spec: Reweight) -> None:
        super().__init__()
        self.over_tokens = (-2, -1) if spec.over == "sequence" else (-1,)
        self.shares = spec.by == "share"
        self.in_evaluation = spec.at == "always"

    def forward(self, o: Tensor, keep: Tensor | None) -> Tensor:
        if not (self.training or self.in_evaluation):
            return o
        real = o if keep is None else o * keep[:, None, :, None]  # padding has no say in the norm of a sequence
        n = torch.linalg.vector_norm(real, dim=self.over_tokens, keepdim=True)  # (B, H, T|1, 1)
        return o * (n * o.shape[1] / n.sum(dim=1, keepdim=True).clamp(min=1e-12) if self.shares else n)
