"""Logits are multiplied by sqrt(width) where hidden states should have been divided by it.

The untrained model is sure of random answers: loss starts far above ln V and the first steps only undo it.
"""

from rotary_base import Llama

CLASS = "TooSure"
FLAGS = ["--causal"]
STATUS = "advice"
CAUGHT_BY = {"initial-loss"}


class TooSure(Llama):
    def logits(self, x):
        return super().logits(x) * x.shape[-1] ** 0.5
