"""Evaluation: loss, perplexity and bits per byte of running text; accuracy and confusion of sentences; item by item.

What is measured is a function of the weights and the data alone: batches are of one size and in order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.data.batches import Encoded, sentences
from headtohead.data.encoded import TextSet
from headtohead.errors import InputError
from headtohead.spec import Spec, knob


class EvalSpec(Spec):
    """When a run is looked at, and how."""

    every: int | None = knob(default=None, ge=1, help="steps between looks; none: ten times a run, or once an epoch")
    train: int = knob(default=256, ge=0, help="training windows or texts to measure too, evenly spread; 0: none")
    along: int | None = knob(
        default=256, ge=1, help="held-out windows or texts to measure along the way, evenly spread; none: all of them"
    )
    stride: int | None = knob(default=None, ge=1, help="tokens between windows; none: the block, each token once")
    count: Literal["all", "new"] = knob(
        default="all", help="of overlapping windows count all tokens, or only those not yet counted"
    )
    windows: int | None = knob(default=None, ge=1, help="only the first so many windows of a set; none: all")
    tests: bool = knob(default=True, help="read the test sets at the end; a search reads them for its choice alone")
    keep: Literal["last", "best"] = knob(
        default="last", help="which weights a run ends with: the last, or those of the best look at the validation set"
    )
    watch_test: bool = knob(default=False, help="look at the test sets along the way too, to retrace a published curve")
    batch: int = knob(default=64, ge=1, help="texts or windows at a time")
    snapshots: int | tuple[int, ...] = knob(
        default=(), help="steps whose weights are kept, 0 being before training; or how many, evenly from 0 to the end"
    )

    def check(self) -> None:
        if self.watch_test and not self.tests:
            raise InputError("evaluate.watch_test looks at the test sets, and evaluate.tests=false forbids it: choose")
        if isinstance(self.snapshots, int) and self.snapshots < 1:
            raise InputError(f"evaluate.snapshots={self.snapshots}: say how many, or the steps themselves: (0, 100)")

    def snapshot_steps(self, steps: int) -> frozenset[int]:
        """The steps of a run of `steps` whose weights are kept."""
        if isinstance(self.snapshots, int):
            spread = max(1, self.snapshots - 1)
            return frozenset(steps - round(n * steps / spread) for n in range(self.snapshots))
        late = [s for s in self.snapshots if s > steps or s < 0]
        if late:
            raise InputError(f"evaluate.snapshots has step {late[0]}: choose from 0 to {steps}, the run's last")
        return frozenset(self.snapshots)


@dataclass(frozen=True)
class Measured:
    """Figures of one set, and what they are made of item by item."""

    values: dict[str, Any]
    items: dict[str, np.ndarray]


class LanguageModelLike(Protocol):
    def token_losses(self, ids: Tensor, targets: Tensor) -> Tensor: ...


@torch.inference_mode()
def running_text(
    model: LanguageModelLike, text: TextSet, spec: EvalSpec, block: int, device: str, spread: int | None = None
) -> Measured:
    """Windows of the text, each with a loss of its own. With `spread`, only so many, from all over it."""
    tokens = text.tokens
    starts, counted = _windows(len(tokens), spec, block, spread)
    total = np.zeros(len(starts))  # of each window, in nats
    for rows in _batches(len(starts), spec.batch):
        length = min(block, len(tokens) - 1 - int(starts[rows][-1]))  # the last window may be short
        for part in (rows,) if length == block else _last_apart(rows):
            length = min(block, len(tokens) - 1 - int(starts[part][-1]))
            taken = torch.from_numpy(tokens[starts[part, None] + np.arange(length + 1)].astype(np.int64)).to(device)
            losses = model.token_losses(taken[:, :-1], taken[:, 1:]).double().cpu().numpy()
            for row, n in zip(range(part.start, part.stop), counted[part], strict=True):
                total[row] = losses[row - part.start, length - n :].sum()
    loss = float(total.sum() / counted.sum())
    values = {
        "loss": loss,
        "perplexity": _exp(loss),
        # nats a token → bits a byte, by the set's own tokens and bytes
        "bits_per_byte": loss * len(tokens) / text.bytes / math.log(2),
        "tokens": int(counted.sum()),
    }
    return Measured(values, {"start": starts, "tokens": counted, "loss": total / np.maximum(counted, 1)})


def _windows(count: int, spec: EvalSpec, block: int, spread: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Where windows begin, and how many of each one's last tokens count."""
    stride = spec.stride or block
    starts = np.arange(0, max(1, count - 1), stride)
    if stride < block:  # overlapping windows are whole ones
        starts = starts[starts + block < count] if count > block else starts[:1]
    starts = starts[: spec.windows]
    lengths = np.minimum(block, count - 1 - starts)
    if spec.count == "new":
        lengths[1:] = np.minimum(lengths[1:], stride)
    which = _spread(len(starts), spread)
    return starts[which], lengths[which]


def _spread(count: int, some: int | None) -> np.ndarray:
    """So many of `count` places, evenly; none: all."""
    return np.linspace(0, count - 1, count if some is None else min(some, count)).round().astype(np.int64)


def _batches(count: int, size: int) -> list[slice]:
    return [slice(a, min(a + size, count)) for a in range(0, count, size)]


def _last_apart(rows: slice) -> list[slice]:
    parts = [slice(rows.start, rows.stop - 1), slice(rows.stop - 1, rows.stop)]
    return [p for p in parts if p.stop > p.start]


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf


@torch.inference_mode()
def labelled(
    model: nn.Module, items: Encoded, classes: int, spec: EvalSpec, block: int, device: str, spread: int | None = None
) -> Measured:
    """Every sentence's prediction and loss; batches sorted by length, which changes no figure but saves padding."""
    which = _spread(len(items), spread)
    order = which[np.argsort(items.lengths[which], kind="stable")]
    predicted, loss = np.zeros(len(items), np.int64), np.zeros(len(items))
    for rows in _batches(len(order), spec.batch):
        batch = sentences(items, order[rows], block)
        assert batch.keep is not None
        logits = model(torch.from_numpy(batch.ids).to(device), torch.from_numpy(batch.keep).to(device)).double()
        nats = F.cross_entropy(logits, torch.from_numpy(batch.targets).to(device), reduction="none")
        predicted[order[rows]] = logits.argmax(dim=1).cpu().numpy()
        loss[order[rows]] = nats.cpu().numpy()
    truth, predicted, loss = items.labels[which], predicted[which], loss[which]
    confusion = np.zeros((classes, classes), np.int64)  # rows: truth; columns: predicted
    np.add.at(confusion, (truth, predicted), 1)
    values = {
        "accuracy": float((truth == predicted).mean()),
        "loss": float(loss.mean()),
        "macro_f1": _macro_f1(confusion),
        "texts": len(which),
        "confusion": confusion.tolist(),
    }
    return Measured(values, {"item": which, "label": truth, "predicted": predicted, "loss": loss})


def _macro_f1(confusion: np.ndarray) -> float:
    """The mean over classes of 2·hits / (predicted + true), without a class that is neither."""
    hits, sides = np.diag(confusion), confusion.sum(axis=0) + confusion.sum(axis=1)
    there = sides > 0
    return float(np.mean(2 * hits[there] / sides[there]))
