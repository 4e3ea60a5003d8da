from headtohead import Pattern, knob


class LookBack(Pattern):
    """A token sees itself and the tokens just before it, `window` in all."""

    equation = "allowed(i, j) = 0 ≤ i − j < window"
    reference = "Beltagy et al. 2020, Longformer, one side"

    window: int = knob(default=4, ge=1, help="positions seen, including the token itself")

    def allowed(self, i, j):
        back = j - i
        return (back >= 0) & (back < self.window)
