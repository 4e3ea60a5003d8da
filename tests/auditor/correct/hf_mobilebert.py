"""Hugging Face MobileBertForSequenceClassification."""

from torch import nn
from transformers import MobileBertConfig, MobileBertForSequenceClassification

CLASS = "Wrapped"
FLAGS = []


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = MobileBertForSequenceClassification(
            MobileBertConfig(
                vocab_size=50,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=48,
                max_position_embeddings=64,
                embedding_size=32,
                intra_bottleneck_size=16,
                true_hidden_size=16,
                num_labels=3,
            )
        )

    def forward(self, ids, attention_mask=None):
        return self.model(ids, attention_mask=attention_mask).logits
