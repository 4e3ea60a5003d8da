"""Gaussian noise, meant to regularise, is added to the embeddings in evaluation as well.

No two evaluations of one checkpoint agree.
"""

import torch
from classifier_base import Encoder

CLASS = "NoisyEmbedding"
FLAGS = []
CAUGHT_BY = {"dropout"}


class NoisyEmbedding(Encoder):
    def embedded(self, ids):
        x = super().embedded(ids)
        return x + 0.1 * torch.randn_like(x)
