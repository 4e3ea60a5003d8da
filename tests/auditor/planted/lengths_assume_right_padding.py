"""The mask given is turned into lengths and back, as if padding always came last.

With padding on the left the first tokens kept are padding and the last real ones are dropped.
"""

import torch
from classifier_base import Encoder

CLASS = "ByLength"
FLAGS = ["--relative"]
CAUGHT_BY = {"padding-left", "shift"}


class ByLength(Encoder):
    def kept(self, ids, keep):
        lengths = super().kept(ids, keep).sum(dim=1, keepdim=True)
        return torch.arange(ids.shape[1]) < lengths
