"""Hugging Face's BERT as a masked language model: every token sees every token, and that is no leak here."""

from torch import nn
from transformers import BertConfig, BertForMaskedLM

CLASS = "MaskedBert"
FLAGS = []


class MaskedBert(nn.Module):
    def __init__(self, vocab=23, block=16):
        super().__init__()
        config = BertConfig(
            vocab_size=vocab,
            max_position_embeddings=block,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
        )
        self.bert = BertForMaskedLM(config)

    def forward(self, ids, attention_mask=None):
        return self.bert(input_ids=ids, attention_mask=attention_mask).logits
