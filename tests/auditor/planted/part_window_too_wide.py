"""The band is compared with <= and holds one token too many on each side.

`window=8` in the study is 9 in the model.
"""

from typing import ClassVar

from headtohead.parts import Pattern
from headtohead.spec import knob

CLASS = "WideBand"
FLAGS = []
CAUGHT_BY = {"window"}


class WideBand(Pattern):
    """The tokens nearer than `window`, on both sides."""

    equation: ClassVar[str] = "allowed(i, j) = |i − j| <= window"
    reference: ClassVar[str] = "Beltagy et al. 2020, Longformer, off by one"

    window: int = knob(default=8, ge=1, help="positions seen on each side, the token's own included")

    def allowed(self, i, j):
        return (i - j <= self.window) & (j - i <= self.window)
