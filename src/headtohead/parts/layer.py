"""What one layer of a model is made of: its sizes, and its parts resolved for this layer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headtohead.spec import Dims, Spec, knob

if TYPE_CHECKING:
    from headtohead.parts.convolutions import Convolution
    from headtohead.parts.feedforwards import FeedForward
    from headtohead.parts.fusions import Fusion
    from headtohead.parts.gates import Gate
    from headtohead.parts.mixers.mixer import Mixer
    from headtohead.parts.norms import Norm
    from headtohead.parts.patterns import Pattern
    from headtohead.parts.positions import Position
    from headtohead.parts.residuals import Residual
    from headtohead.parts.scores import Scores
    from headtohead.parts.values import Values
    from headtohead.parts.weightings import Weighting


class Biases(Spec):
    """Which of the four attention projections learn a bias."""

    q: bool = knob(default=False, help="queries")
    k: bool = knob(
        default=False, help="keys; softmax cancels it, so it has no effect unless keys are rotated or normalised"
    )
    v: bool = knob(default=False, help="values")
    out: bool = knob(default=True, help="the output projection")


@dataclass(frozen=True)
class Layer:
    """One layer, for the parts that need to know the others: mixers first of all."""

    n: int  # 0 for the first layer
    dims: Dims
    vocab: int
    kv_heads: int
    biases: Biases
    dropout: float
    position: Position
    pattern: Pattern
    mixer: Mixer
    scores: Scores
    weighting: Weighting
    values: Values
    gate: Gate
    fusion: Fusion
    convolution: Convolution
    norm: Norm
    qk_norm: Norm
    residual: Residual
    feedforward: FeedForward
    seeded: Callable[[str], AbstractContextManager[object]] = nullcontext  # random draws inside depend on the name
