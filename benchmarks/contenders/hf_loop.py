"""Hugging Face's GPT-2 and BERT at the task's sizes in a plain loop: SDPA attention and torch's fused AdamW.

Everything a competent user would set is set: no dropout, no cache, ReLU (GPT-2's own GELU is several operations and
slower), an untied head because the documents' models have one.
"""

from __future__ import annotations

import torch
from contender import Batch, Built, serve, training
from torch import Tensor
from torch.nn import functional as F
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from steps import Task


def gpt2(task: Task) -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=task.vocab,
        n_positions=task.block,
        n_embd=task.width,
        n_layer=task.layers,
        n_head=task.heads,
        n_inner=task.feedforward,
        activation_function="relu",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    return GPT2LMHeadModel(config).train()


def bert(task: Task) -> BertForSequenceClassification:
    config = BertConfig(
        vocab_size=task.vocab,
        max_position_embeddings=task.block,
        hidden_size=task.width,
        num_hidden_layers=task.layers,
        num_attention_heads=task.heads,
        intermediate_size=task.feedforward,
        num_labels=task.classes,
        hidden_act="relu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        type_vocab_size=1,
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    return BertForSequenceClassification(config).train()


def decoder(task: Task) -> Built:
    model = gpt2(task)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.ids).logits.flatten(0, 1), batch.targets.flatten())

    return training(model, _adamw(model, task), loss)


def classifier(task: Task) -> Built:
    model = bert(task)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.ids, attention_mask=batch.keep).logits, batch.targets)

    return training(model, _adamw(model, task), loss)


def _adamw(model: torch.nn.Module, task: Task) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=task.rate, weight_decay=0.0, fused=True)


if __name__ == "__main__":
    serve("transformers", decoder=decoder, classifier=classifier)
