"""Hugging Face's GPT-2 with positions counted from the mask, so that padding may stand on either side."""

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

CLASS = "GPT2EitherSide"
FLAGS = ["--causal"]


class GPT2EitherSide(nn.Module):
    def __init__(self, vocab=23, block=16):
        super().__init__()
        config = GPT2Config(
            vocab_size=vocab, n_positions=block, n_embd=16, n_layer=1, n_head=4, bos_token_id=0, eos_token_id=0
        )
        self.model = GPT2LMHeadModel(config)

    def forward(self, ids, attention_mask=None):
        attention_mask = torch.ones_like(ids) if attention_mask is None else attention_mask.long()
        position_ids = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)
        return self.model(ids, attention_mask=attention_mask, position_ids=position_ids).logits
