from headtohead import Pattern, knob


class Band(Pattern):
    """The tokens near the query on both sides. `Causal() & Band(4)` looks back only, at four tokens in all."""

    equation = "allowed(i, j) = |i − j| < window"
    reference = "Beltagy et al. 2020, Longformer"

    window: int = knob(default=4, ge=1, help="positions seen on each side, including the token itself")

    def allowed(self, i, j):
        return (i - j <= self.window) & (j - i <= self.window)
