"""A bag of words: counts of tokens times a matrix, padding left out. Order does not matter and neither does length."""

import torch
from torch import nn

CLASS = "BagOfWords"
FLAGS = []


class BagOfWords(nn.Module):
    def __init__(self, vocab=23, classes=4):
        super().__init__()
        self.weights = nn.EmbeddingBag(vocab, classes, mode="sum", padding_idx=0)
        nn.init.normal_(self.weights.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, ids):
        return self.weights(ids) + self.bias
