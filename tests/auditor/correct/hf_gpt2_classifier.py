"""Hugging Face GPT2ForSequenceClassification."""

from torch import nn
from transformers import GPT2Config, GPT2ForSequenceClassification

CLASS = "Wrapped"
FLAGS = []


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = GPT2ForSequenceClassification(
            GPT2Config(vocab_size=50, n_positions=64, n_embd=32, n_layer=2, n_head=4, num_labels=3, pad_token_id=0)
        )

    def forward(self, ids, attention_mask=None):
        return self.model(ids, attention_mask=attention_mask).logits
