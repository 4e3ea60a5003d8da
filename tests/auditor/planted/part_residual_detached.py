"""A residual wiring that adds the sublayer's output without its gradient.

Attention and feed-forward stay at their random start; embeddings and head learn around them.
"""

from typing import ClassVar

from headtohead.parts import Residual
from headtohead.parts.residuals import Wire

CLASS = "StopBranch"
FLAGS = []
CAUGHT_BY = {"gradients"}


class StopBranch(Residual):
    """Norm before the sublayer."""

    equation: ClassVar[str] = "x + stop(f(norm(x)))"
    reference: ClassVar[str] = "nobody"

    def build(self, norm):
        return StopWire(norm)


class StopWire(Wire):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm()

    def forward(self, x, f):
        return x + f(self.norm(x)).detach()
