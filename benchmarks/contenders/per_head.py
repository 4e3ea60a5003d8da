"""The model as the student documents build it: every head a module with its own three projections, plain softmax.

Written from the equation a_ij = softmax_j(<q_i, k_j> / sqrt(D_head)) over the allowed j. Adam as torch gives it.
Shapes: B texts, T tokens, D = width, d = width of a head.
"""

from __future__ import annotations

import math

import torch
from contender import Batch, Built, serve, training
from torch import Tensor, nn
from torch.nn import functional as F

from steps import Task


class Head(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        d = task.width // task.heads
        self.query = nn.Linear(task.width, d, bias=False)
        self.key = nn.Linear(task.width, d, bias=False)
        self.value = nn.Linear(task.width, d, bias=False)

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        q, k, v = self.query(x), self.key(x), self.value(x)  # (B, T, d)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])  # (B, T, T)
        return F.softmax(scores.masked_fill(~allowed, -torch.inf), dim=-1) @ v


class Block(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head(task) for _ in range(task.heads))
        self.project = nn.Linear(task.width, task.width)
        self.feedforward = nn.Sequential(
            nn.Linear(task.width, task.feedforward), nn.ReLU(), nn.Linear(task.feedforward, task.width)
        )
        self.norm1, self.norm2 = nn.LayerNorm(task.width), nn.LayerNorm(task.width)

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        h = self.norm1(x)
        x = x + self.project(torch.cat([head(h, allowed) for head in self.heads], dim=-1))
        return x + self.feedforward(self.norm2(x))


class Trunk(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        self.tokens = nn.Embedding(task.vocab, task.width)
        self.positions = nn.Embedding(task.block, task.width)
        self.blocks = nn.ModuleList(Block(task) for _ in range(task.layers))
        self.norm = nn.LayerNorm(task.width)

    def forward(self, ids: Tensor, allowed: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x, allowed)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        self.trunk = Trunk(task)
        self.head = nn.Linear(task.width, task.vocab)
        self.register_buffer("past", torch.tril(torch.ones(task.block, task.block, dtype=torch.bool)))

    def forward(self, ids: Tensor) -> Tensor:
        T = ids.shape[1]
        return self.head(self.trunk(ids, self.past[:T, :T]))


class Classifier(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        self.trunk = Trunk(task)
        self.head = nn.Sequential(nn.Linear(task.width, task.hidden), nn.ReLU(), nn.Linear(task.hidden, task.classes))

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        x = self.trunk(ids, keep[:, None, :])
        return self.head((x * keep[:, :, None]).sum(1) / keep.sum(1, keepdim=True))


def decoder(task: Task) -> Built:
    model = Decoder(task)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.ids).flatten(0, 1), batch.targets.flatten())

    return training(model, torch.optim.Adam(model.parameters(), lr=task.rate), loss)


def classifier(task: Task) -> Built:
    model = Classifier(task)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.ids, batch.keep), batch.targets)

    return training(model, torch.optim.Adam(model.parameters(), lr=task.rate), loss)


if __name__ == "__main__":
    serve("torch", decoder=decoder, classifier=classifier)
