"""The loop over layers calls the first layer each time.

It is a shared-weight model that reports the parameters of a deep one; all layers but one stay as they were drawn.
"""

from gpt_base import GPT

CLASS = "SameLayer"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class SameLayer(GPT):
    def layers(self):
        return [self.blocks[0] for _ in self.blocks]
