"""With a cache, positions start again at 0 for every new token.

Training is right; generated text goes wrong from the second token on.
"""

from rotary_base import Attn, Llama

CLASS = "RestartedPositions"
FLAGS = ["--causal"]
CAUGHT_BY = {"cache"}


class RestartedPositionsAttn(Attn):
    def first_position(self, past):
        return 0


class RestartedPositions(Llama):
    attention = RestartedPositionsAttn
