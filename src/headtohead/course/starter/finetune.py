"""Part 5: a classifier on a pretrained encoder."""

from torch import nn


class PretrainedClassifier(nn.Module):
    """An encoder, the mean over the real tokens, dropout, a linear layer."""

    def __init__(self, encoder, width, classes, freeze=True):
        super().__init__()
        raise NotImplementedError("part 5: write PretrainedClassifier")

    def forward(self, input_ids, attention_mask):
        """Map ids and mask (batch, length) to logits (batch, classes). The mask is 1 for real tokens."""
        raise NotImplementedError("part 5: write PretrainedClassifier.forward")


def trainable(model):
    """The number of parameters that training changes."""
    raise NotImplementedError("part 5: write trainable")
