"""A logarithm of a probability that can be zero: the output is minus infinity from the first batch on."""

from gpt_base import GPT

CLASS = "LogOfZero"
FLAGS = ["--causal"]
CAUGHT_BY = {"finite"}


class LogOfZero(GPT):
    def forward(self, ids):
        return super().forward(ids).relu().log()
