"""The constructor seeds torch, so all seeds give one model."""

import torch
from gpt_base import GPT

CLASS = "SeededInConstructor"
FLAGS = ["--causal"]
CAUGHT_BY = {"seed"}


class SeededInConstructor(GPT):
    def __init__(self, n_layer=2, n_head=4, n_embd=32):
        torch.manual_seed(42)
        super().__init__(n_layer=n_layer, n_head=n_head, n_embd=n_embd)
