"""The output of attention is detached before it joins the residual stream.

Attention keeps its random weights; everything around it learns, so the model trains and attention seems useless.
"""

from gpt_base import GPT, Block

CLASS = "Detached"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class DetachedBlock(Block):
    def attended(self, x):
        return super().attended(x).detach()


class Detached(GPT):
    block = DetachedBlock
