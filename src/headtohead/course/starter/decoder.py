"""Part 2: a language model with a cache, and greedy text."""

from torch import nn


class LanguageModel(nn.Module):
    """Token and position embeddings, blocks that do not see later tokens, LayerNorm, a linear layer to `vocab`."""

    def __init__(self, vocab, block, width=64, heads=2, layers=4):
        super().__init__()
        self.block = block  # the longest text that the model reads
        raise NotImplementedError("part 2: write the layers of LanguageModel")

    def forward(self, ids, cache=None):
        """Map ids (batch, length) to logits (batch, length, vocab).

        `cache` is None, or a dict: empty in the first call, and passed again with the tokens that follow.
        """
        raise NotImplementedError("part 2: write LanguageModel.forward")


def generate(model, ids, tokens):
    """Continue texts (batch, length) with the most probable token, `tokens` times: (batch, length + tokens)."""
    raise NotImplementedError("part 2: write generate")
