"""Hugging Face LlamaForCausalLM."""

from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

CLASS = "Wrapped"
FLAGS = ["--causal", "--relative"]


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = LlamaForCausalLM(
            LlamaConfig(
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=48,
                max_position_embeddings=64,
                vocab_size=50,
                num_key_value_heads=2,
            )
        )

    def forward(self, ids, attention_mask=None):
        return self.model(ids, attention_mask=attention_mask, use_cache=False).logits
