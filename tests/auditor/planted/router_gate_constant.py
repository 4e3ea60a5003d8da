"""Topk=1 renormalised: the gate is always one, the router gets none."""

from experts_base import Experts

CLASS = "LM"
FLAGS = ["--causal"]
CAUGHT_BY = {"gradients"}


class LM(Experts):
    def gates(self, scores):
        gates = super().gates(scores)
        return gates / gates.sum(dim=-1, keepdim=True)
