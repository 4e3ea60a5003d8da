"""A head fusion draws a new order of heads at every forward pass, in evaluation too.

Scores of one checkpoint differ from call to call.
"""

from typing import ClassVar

import torch

from headtohead.parts import Fusion, FusionHooks

CLASS = "RandomOrder"
FLAGS = []
CAUGHT_BY = {"dropout"}


class RandomOrder(Fusion):
    """Heads in an order drawn anew each time."""

    equation: ClassVar[str] = "[O_s(1) … O_s(H)], s drawn anew"
    reference: ClassVar[str] = "nobody"

    def build(self, dims, layer):
        return RandomOrderHooks()


class RandomOrderHooks(FusionHooks):
    def forward(self, o, keep):
        return o[:, torch.randperm(o.shape[1])]
