"""The input of attention is detached: every parameter gets a gradient, and a wrong one."""

from gpt_base import GPT, Block

CLASS = "InputDetached"
FLAGS = ["--causal"]
CAUGHT_BY = {"derivative"}


class DetachedBlock(Block):
    def forward(self, x):
        x = x + self.attn(self.ln1(x.detach()))
        return x + self.drop(self.out(self.fc(self.ln2(x)).relu()))


class InputDetached(GPT):
    block = DetachedBlock
