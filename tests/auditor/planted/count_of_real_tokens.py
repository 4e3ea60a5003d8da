"""Hidden states are scaled by the number of tokens that are not padding, counted over the whole text.

No gradient flows through a count, yet the first token's prediction says how many words follow.
"""

from gpt_base import GPT

CLASS = "ScaledByCount"
FLAGS = ["--causal"]
CAUGHT_BY = {"future-tokens", "future-length"}


class ScaledByCount(GPT):
    def embed(self, ids):
        count = (ids != 0).sum(dim=1).clamp(min=1).view(-1, 1, 1)
        x = super().embed(ids)
        return x / count.to(x.dtype).sqrt()
