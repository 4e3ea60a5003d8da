"""Both matrices of the feed-forward start at zero, so neither ever gets a gradient."""

from gpt_base import GPT
from torch import nn

CLASS = "StartsDead"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class StartsDead(GPT):
    def __init__(self, n_layer=2, n_head=4, n_embd=32):
        super().__init__(n_layer=n_layer, n_head=n_head, n_embd=n_embd)
        for block in self.blocks:
            nn.init.zeros_(block.fc.weight)
            nn.init.zeros_(block.out.weight)
