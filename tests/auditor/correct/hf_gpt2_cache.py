"""Hugging Face's GPT-2 with its cache. The cache is an object that the next call changes in place."""

from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

CLASS = "GPT2Cached"
FLAGS = ["--causal"]


class GPT2Cached(nn.Module):
    def __init__(self, vocab=23, block=16):
        super().__init__()
        config = GPT2Config(
            vocab_size=vocab, n_positions=block, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
        )
        self.model = GPT2LMHeadModel(config)

    def forward(self, ids, past_key_values=None):
        out = self.model(ids, past_key_values=past_key_values, use_cache=True)
        return out.logits, out.past_key_values
