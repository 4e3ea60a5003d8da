"""The input of attention is detached: every parameter gets a gradient, and a wrong one."""

from gpt_base import GPT, Block

CLASS = "InputDetached"
FLAGS = ["--causal"]
CAUGHT_BY = {"derivative"}


class InputDetachedBlock(Block):
    def attended(self, x):
        return super().attended(x.detach())


class InputDetached(GPT):
    block = InputDetachedBlock
