"""Ids above a limit are clamped, as for an unknown word: their own rows never learn."""

from gpt_base import GPT

CLASS = "Clamped"
FLAGS = ["--causal"]
CAUGHT_BY = {"rows"}


class Clamped(GPT):
    def forward(self, ids):
        return super().forward(ids.clamp(max=18))
