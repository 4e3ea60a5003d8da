"""What is trained, and in how many processes and threads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

LARGE = 2048  # side of the matrices whose product tells what the machine can do


@dataclass(frozen=True)
class Task:
    """What is trained, from the documents this project grew from, and what is promised of it."""

    name: str
    feedforward: int
    steps_a_run: int
    classes: int | None  # None: a language model
    step_target: float  # our step takes at most this share of the best contender's
    runs_target: float  # we do at least so many times the runs per hour of the best contender
    share_target: float = 0.55  # of the machine's GFLOP/s in large products
    vocab: int = 5755
    block: int = 32
    batch: int = 16
    width: int = 64
    heads: int = 2
    layers: int = 4
    hidden: int = 100  # of the classifier's head
    rate: float = 1e-3

    def flops(self, tokens: float, pairs: float) -> float:
        """Floating-point operations of one training step on `tokens` tokens and `pairs` query-key pairs.

        A product of (n, a) and (a, b) is 2·n·a·b. Forward: four D×D projections and two of the feed-forward a token
        and layer; q·k and a·v, 2·D each, a pair and layer; the head. Backward is twice forward: a product for the
        gradient of the input and one for that of the weight. Not counted, because it is no product: embeddings,
        norms, softmax, cross-entropy, the optimizer; nor what an implementation computes a second time.
        """
        D = self.width
        token = self.layers * 2 * (4 * D * D + 2 * D * self.feedforward)
        pair = self.layers * 2 * 2 * D
        if self.classes is None:
            head = tokens * 2 * D * self.vocab
        else:
            head = self.batch * 2 * (D * self.hidden + self.hidden * self.classes)
        return 3 * (tokens * token + pairs * pair + head)

    def padded_flops(self) -> float:
        """Of the full rectangle: every text at the length of the block, attention over all T×T pairs."""
        return self.flops(self.batch * self.block, self.batch * self.block**2)


TASKS = {
    task.name: task
    for task in (
        Task("decoder", feedforward=100, steps_a_run=500, classes=None, step_target=0.75, runs_target=2),
        Task("classifier", feedforward=256, steps_a_run=15 * 131, classes=3, step_target=0.6, runs_target=3),
    )
}


class Setting(NamedTuple):
    processes: int  # at the same time
    threads: int  # of each

    def __str__(self) -> str:
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return threads if self.processes == 1 else f"{self.processes} processes"


SINGLE = Setting(1, 1)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
