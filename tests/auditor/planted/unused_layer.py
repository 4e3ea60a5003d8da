"""A feed-forward is built and never called.

The parameter count reported is that of a model twice as large as the one that runs.
"""

from gpt_base import GPT, Block

CLASS = "NeverCalled"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class NeverCalledBlock(Block):
    def forward(self, x):
        return x + self.attended(x)


class NeverCalled(GPT):
    block = NeverCalledBlock
