"""Token vectors are standardised with mean and deviation over the texts of the batch.

A text's prediction depends on which other texts happen to be evaluated beside it.
"""

from gpt_base import GPT, Block

CLASS = "AcrossBatch"
FLAGS = ["--causal"]
CAUGHT_BY = {"batch-rows"}


class AcrossBatchBlock(Block):
    def attended(self, x):
        return self.attn((x - x.mean(dim=0)) / (x.std(dim=0, correction=0) + 1e-3))


class AcrossBatch(GPT):
    block = AcrossBatchBlock
