"""`use_positions=False` still adds the positions: the option is stored and never asked.

The ablation "without positions" is the same model twice.
"""

from gpt_base import GPT

CLASS = "PositionsAnyway"
FLAGS = ["--causal"]
CAUGHT_BY = {"options"}


class PositionsAnyway(GPT):
    def __init__(self, use_positions=True):
        super().__init__()
        self.use_positions = use_positions
