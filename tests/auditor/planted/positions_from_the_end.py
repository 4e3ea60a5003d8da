"""Positions are counted from the end of the text: the last token is position 0.

A language model cannot know where its text ends; the first token's prediction changes with every token appended.
"""

from gpt_base import GPT

CLASS = "CountedBackwards"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-length"}


class CountedBackwards(GPT):
    def positions(self, T):
        return super().positions(T).flip(0)
