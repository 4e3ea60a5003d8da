"""A pattern of the user's own without a window: each token sees every n-th token before and after it."""

from typing import ClassVar

from headtohead.parts import Pattern
from headtohead.spec import knob

CLASS = "Strided"
FLAGS = []


class Strided(Pattern):
    """The tokens at a distance that is a multiple of the stride."""

    equation: ClassVar[str] = "allowed(i, j) = (i − j) mod stride = 0"
    reference: ClassVar[str] = "Child et al. 2019, Generating Long Sequences with Sparse Transformers"

    stride: int = knob(default=3, ge=1, help="tokens from one that is seen to the next")

    def allowed(self, i, j):
        return (i - j) % self.stride == 0
