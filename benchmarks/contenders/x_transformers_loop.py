"""x-transformers at the task's sizes in a plain loop: flash (SDPA) attention and torch's fused AdamW."""

from __future__ import annotations

import torch
from contender import Batch, Built, serve, training
from torch import Tensor, nn
from torch.nn import functional as F
from x_transformers import Decoder, Encoder, TransformerWrapper

from steps import Task


def _layers(kind: type[Decoder] | type[Encoder], task: Task) -> Decoder | Encoder:
    return kind(
        dim=task.width,
        depth=task.layers,
        heads=task.heads,
        attn_dim_head=task.width // task.heads,
        attn_flash=True,
        ff_mult=task.feedforward / task.width,
        ff_custom_activation=nn.ReLU(),
    )


def decoder(task: Task) -> Built:
    head = nn.Linear(task.width, task.vocab)  # with the bias that the documents' head has
    model = TransformerWrapper(
        num_tokens=task.vocab, max_seq_len=task.block, attn_layers=_layers(Decoder, task), to_logits=head
    )

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.ids).flatten(0, 1), batch.targets.flatten())

    return training(model, _adamw(model, task), loss)


def classifier(task: Task) -> Built:
    head = nn.Linear(task.width, task.classes)
    model = TransformerWrapper(
        num_tokens=task.vocab,
        max_seq_len=task.block,
        attn_layers=_layers(Encoder, task),
        average_pool_embed=True,  # the mean of the real tokens
        to_logits=head,
    )

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.ids, mask=batch.keep), batch.targets)

    return training(model, _adamw(model, task), loss)


def _adamw(model: nn.Module, task: Task) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=task.rate, weight_decay=0.0, fused=True)


if __name__ == "__main__":
    serve("x-transformers", decoder=decoder, classifier=classifier)
