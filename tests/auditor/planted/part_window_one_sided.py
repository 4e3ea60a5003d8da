"""The band bounds how far back a token sees and forgets to bound how far ahead.

In an encoder every token sees all that follows, which is no local attention at all.
"""

from typing import ClassVar

from headtohead.parts import Pattern
from headtohead.spec import knob

CLASS = "HalfBand"
FLAGS = []
CAUGHT_BY = {"window"}


class HalfBand(Pattern):
    """The tokens nearer than `window`, on both sides, or so it says."""

    equation: ClassVar[str] = "allowed(i, j) = i − j < window"
    reference: ClassVar[str] = "Beltagy et al. 2020, Longformer, half of it"

    window: int = knob(default=4, ge=1, help="positions seen on each side, the token's own included")

    def allowed(self, i, j):
        return (i - j < self.window) & (j >= 0)
