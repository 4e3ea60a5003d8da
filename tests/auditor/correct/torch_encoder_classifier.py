"""nn.TransformerEncoder with a padding mask (True at padding), guarded against texts that are padding only.

In evaluation without gradients PyTorch takes another path, whose numbers differ in the last digits.
"""

import torch
from torch import nn

CLASS = "TorchEncoder"
FLAGS = []


class TorchEncoder(nn.Module):
    def __init__(self, vocab=23, width=16, heads=2, layers=2, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, heads, dim_feedforward=32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, src_key_padding_mask=None):
        padding = ids == 0 if src_key_padding_mask is None else src_key_padding_mask.bool()
        empty = padding.all(dim=1, keepdim=True)
        x = self.encoder(self.embed(ids), src_key_padding_mask=padding & ~empty)
        keep = (~padding).unsqueeze(-1)
        mean = torch.where(keep, x, 0.0).sum(dim=1) / keep.sum(dim=1).clamp(min=1)
        return self.head(mean)
