"""Each layer is a plain tuple of modules inside a list, so an nn.Module is nowhere an attribute.

Half of the network stays at its random start.
"""

from gpt_base import GPT

CLASS = "Stages"
FLAGS = ["--causal"]
CAUGHT_BY = {"registered"}


class Stages(GPT):
    def __init__(self):
        super().__init__()
        self.stages = [(n, [block]) for n, block in enumerate(self.blocks)]
        self.blocks = None

    def layers(self):
        return [block for _, [block] in self.stages]
