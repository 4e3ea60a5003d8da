"""No contender but the yardstick: what this machine reaches in a large float32 product, talked to in the same way."""

from __future__ import annotations

import torch
from contender import Batch, Built, serve
from torch import Tensor

from steps import LARGE, Task


def product(_: Task) -> Built:
    a, b, c = (torch.rand(LARGE, LARGE) for _ in range(3))

    def step(_: Batch) -> Tensor:
        return torch.mm(a, b, out=c)[0, 0]

    return Built(step, 0)


if __name__ == "__main__":
    serve("torch", decoder=product, classifier=product)
