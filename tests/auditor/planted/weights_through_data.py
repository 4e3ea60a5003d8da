"""The feed-forward reads its weight through `.data`, which cuts it from the graph.

The layer's bias is trained and its weight is not, so most of the gradient check passes.
"""

from gpt_base import GPT
from torch import nn
from torch.nn import functional as F

CLASS = "ThroughData"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class Scaled(nn.Linear):
    """A linear layer whose rows are scaled to length one."""

    def forward(self, x):
        rows = self.weight.data / self.weight.data.norm(dim=1, keepdim=True)
        return F.linear(x, rows, self.bias)


class ThroughData(GPT):
    def __init__(self):
        super().__init__()
        for block in self.blocks:
            block.fc = Scaled(32, 128)
