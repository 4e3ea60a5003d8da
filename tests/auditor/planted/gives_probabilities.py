"""It gives softmax probabilities, and the loss takes another softmax of them."""

from gpt_base import GPT

CLASS = "Probabilities"
FLAGS = ["--causal"]
CAUGHT_BY = {"initial-loss"}


class Probabilities(GPT):
    def forward(self, ids):
        return super().forward(ids).softmax(dim=-1)
