"""A value residual that keeps the first values in the module: later texts get those of the first one."""

from typing import ClassVar

from headtohead import ValueHooks, Values

CAUGHT_BY = {"repeat", "batch-rows", "cache", "future-length"}


class Kept(Values):
    """Half of the layer's own values, half of the first ones."""

    equation: ClassVar[str] = "v ← v / 2 + v_1 / 2"
    reference: ClassVar[str] = "Zhou et al. 2024, Value Residual Learning"

    def build(self, layer):
        return KeptHooks()


class KeptHooks(ValueHooks):
    first = None

    def forward(self, v, memo):
        if self.first is None or self.first.shape != v.shape:
            self.first = v.detach()
        return v / 2 + self.first / 2
