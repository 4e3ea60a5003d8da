"""The layers are kept in a plain dict instead of nn.ModuleDict.

Only embedding and head are trained; the model still learns something, so the loss curve looks merely poor.
"""

from gpt_base import GPT

CLASS = "DictOfLayers"
FLAGS = ["--causal"]
CAUGHT_BY = {"registered"}


class DictOfLayers(GPT):
    def __init__(self):
        super().__init__()
        self.by_name = {f"layer{n}": block for n, block in enumerate(self.blocks)}
        self.blocks = None

    def layers(self):
        return self.by_name.values()
