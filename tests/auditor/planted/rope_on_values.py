"""The rotary embedding turns the values as well as queries and keys.

Values then carry their absolute position into the output, so a model said to be relative changes when its text moves.
"""

import torch
from classifier_base import Encoder
from rotary_base import rope

CLASS = "TurnedValues"
FLAGS = ["--relative"]
CAUGHT_BY = {"shift", "padding-left"}


class TurnedValues(Encoder):
    def split(self, x):
        pos = torch.arange(x.shape[1])
        return (rope(t, pos) for t in super().split(x))
