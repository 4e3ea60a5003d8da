"""attention_mask is taken and ignored, so padding on the left is read as text."""

from gpt_base import GPT

CLASS = "MaskIgnored"
FLAGS = ["--causal"]
CAUGHT_BY = {"padding-left"}


class MaskIgnored(GPT):
    def forward(self, ids, attention_mask=None):
        return super().forward(ids)
