"""Position vectors are drawn with an unseeded NumPy generator.

Seeding PyTorch fixes all weights but these, so repeated runs differ slightly without an obvious reason.
"""

import numpy as np
import torch
from gpt_base import GPT
from torch import nn

CLASS = "NumpyPositions"
FLAGS = ["--causal"]
CAUGHT_BY = {"seed"}


class NumpyPositions(GPT):
    def __init__(self):
        super().__init__()
        drawn = np.random.default_rng().normal(scale=0.1, size=self.wpe.weight.shape)
        self.wpe.weight = nn.Parameter(torch.from_numpy(drawn).float())
