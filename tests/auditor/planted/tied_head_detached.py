"""The head is the token embedding, detached: the embedding learns from its other use alone."""

from gpt_base import GPT
from torch import nn

CLASS = "HeadDetached"
FLAGS = ["--causal"]
CAUGHT_BY = {"derivative"}


class DetachedHead(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.tokens = tokens

    def forward(self, x):
        return x @ self.tokens.weight.detach().T


class HeadDetached(GPT):
    def __init__(self, n_layer=2, n_head=4, n_embd=32):
        super().__init__(n_layer=n_layer, n_head=n_head, n_embd=n_embd)
        self.head = DetachedHead(self.wte)
