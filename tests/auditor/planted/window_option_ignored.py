"""The constructor takes a `window` and attention never looks at it.

A sweep over windows compares a model with itself and finds that the window does not matter.
"""

from gpt_base import GPT

CLASS = "WindowIgnored"
FLAGS = ["--causal"]
CAUGHT_BY = {"options"}


class WindowIgnored(GPT):
    def __init__(self, window=4):
        super().__init__()
        self.window = window
