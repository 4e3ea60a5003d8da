"""Experts choose their tokens from the whole text (top-k over time), in a causal model.

Whether a token gets an expert depends on the tokens after it. The choice has no gradient, so only changing later
tokens shows it.
"""

import torch
from experts_base import Experts

CLASS = "ExpertChoice"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-tokens", "future-length"}


class ExpertChoice(Experts):
    def gates(self, scores):
        chosen = scores.topk(max(1, scores.shape[1] // 2), dim=1).indices
        return scores.sigmoid() * torch.zeros_like(scores).scatter(1, chosen, 1.0)
