"""The mean leaves padding out, but attention does not: padded keys receive weight.

Every real token's vector is diluted by as much padding as its batch happens to have.
"""

import torch
from classifier_base import Encoder

CLASS = "KeysUnmasked"
FLAGS = []
CAUGHT_BY = {"padding-right", "padding-left"}


class KeysUnmasked(Encoder):
    def seen(self, keep):
        return torch.ones_like(keep)
