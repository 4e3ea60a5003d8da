"""The `dropout` given is not the dropout used: the layer is built with a fixed 0.1.

A grid over dropout measures seed noise. Evaluation cannot show it; only training mode can.
"""

from gpt_base import GPT

CLASS = "FixedDropout"
FLAGS = ["--causal"]
CAUGHT_BY = {"options"}


class FixedDropout(GPT):
    def __init__(self, dropout=0.1):
        super().__init__(dropout=0.1)
