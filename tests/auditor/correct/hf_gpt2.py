"""Hugging Face's GPT-2, wrapped as anybody would: ids and an attention mask in, logits out.

Its positions are counted from the first column, so it is meant for padding on the right.
"""

from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

CLASS = "GPT2"
FLAGS = ["--causal"]


class GPT2(nn.Module):
    def __init__(self, vocab=23, block=16):
        super().__init__()
        config = GPT2Config(
            vocab_size=vocab, n_positions=block, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
        )
        self.model = GPT2LMHeadModel(config)

    def forward(self, ids, attention_mask=None):
        return self.model(ids, attention_mask=attention_mask).logits
