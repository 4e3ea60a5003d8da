"""`F.dropout` is called without `training=self.training`, whose default is True.

Evaluation is noisy, and the same text gets another loss each time it is scored.
"""

from gpt_base import GPT, Block
from torch.nn import functional as F

CLASS = "AlwaysDropping"
FLAGS = ["--causal"]
CAUGHT_BY = {"dropout"}


class AlwaysDroppingBlock(Block):
    def attended(self, x):
        return F.dropout(super().attended(x), 0.1)


class AlwaysDropping(GPT):
    block = AlwaysDroppingBlock
