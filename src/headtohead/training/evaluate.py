"""Evaluation, item by item: loss, perplexity and bits per byte of running text; accuracy of labelled texts.

Results depend on the weights and the data alone: evaluation batches have a fixed size and order.
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
from headtohead.parts.objectives import choose
from headtohead.spec import Spec, knob
from headtohead.spec.streams import stream

MOST_SNAPSHOTS = 10_000


class EvalSpec(Spec):
    """When a run is evaluated, and how."""

    every: int | None = knob(
        default=None, ge=1, help="steps between evaluations; none: a tenth of the run, or one epoch if epochs are set"
    )
    train: int = knob(default=256, ge=0, help="training windows or texts to evaluate, evenly spaced; 0: none")
    along: int | None = knob(
        default=256, ge=1, help="held-out windows or texts per evaluation during training, evenly spaced; none: all"
    )
    stride: int | None = knob(
        default=None, ge=1, help="tokens between window starts; none: the block size, so each token counts once"
    )
    count: Literal["all", "new"] = knob(
        default="all", help="tokens to count in overlapping windows: all, or only those not in an earlier window"
    )
    windows: int | None = knob(default=None, ge=1, help="evaluate only the first N windows of a set; none: all")
    tests: bool = knob(default=True, help="evaluate the test sets at the end; a search does it for its choice only")
    keep: Literal["last", "best"] = knob(
        default="last", help="weights to keep: the last, or those of the best evaluation on the validation set"
    )
    watch_test: bool = knob(
        default=False, help="evaluate the test sets during training too, to reproduce a published curve"
    )
    batch: int = knob(default=64, ge=1, help="texts or windows per evaluation batch")
    snapshots: int | tuple[int, ...] = knob(
        default=(), help="steps whose weights are kept (0 is before training), or how many, evenly from 0 to the end"
    )
    masked: float = knob(
        default=0.15,
        gt=0,
        le=1,
        later=True,
        help="share of the tokens of each window that is hidden to evaluate a model of masked tokens",
    )

    def check(self) -> None:
        if self.watch_test and not self.tests:
            raise InputError("evaluate.watch_test needs the test sets: set evaluate.tests=true, or watch_test=false")
        if isinstance(self.snapshots, int) and self.snapshots < 1:
            raise InputError(f"evaluate.snapshots={self.snapshots}: give a count of 1 or more, or steps like (0, 100)")
        if isinstance(self.snapshots, int) and self.snapshots > MOST_SNAPSHOTS:
            raise InputError(f"evaluate.snapshots={self.snapshots}: give at most {MOST_SNAPSHOTS}, each is one file")

    def snapshot_steps(self, steps: int) -> frozenset[int]:
        """Return the steps, in a run of `steps`, whose weights are kept."""
        if isinstance(self.snapshots, int):
            gaps = max(1, self.snapshots - 1)
            return frozenset(steps - round(n * steps / gaps) for n in range(self.snapshots))
        outside = [s for s in self.snapshots if s > steps or s < 0]
        if outside:
            raise InputError(f"evaluate.snapshots has step {outside[0]}: choose steps from 0 to {steps}, the last step")
        return frozenset(self.snapshots)


@dataclass(frozen=True)
class Measured:
    """Metrics of one set, and the values of each item that they are computed from."""

    values: dict[str, Any]
    items: dict[str, np.ndarray]


class LanguageModelLike(Protocol):
    def token_losses(self, ids: Tensor, targets: Tensor) -> Tensor: ...


@torch.inference_mode()
def running_text(
    model: LanguageModelLike,
    text: TextSet,
    spec: EvalSpec,
    block: int,
    device: str,
    spread: int | None = None,
    mask: int | None = None,
) -> Measured:
    """Measure the loss of each window of a text. With `spread`, use that many windows, evenly spaced. With a `mask`,
    measure the loss of hidden tokens instead of next tokens."""
    if mask is not None:
        return _masked_text(model, text, spec, block, device, spread, mask)
    tokens = text.tokens
    starts, counted = _windows(len(tokens), spec, block, spread)
    total = np.zeros(len(starts))  # loss of each window in nats, summed over its counted tokens
    full = int((starts + block < len(tokens)).sum())  # the last window may be short
    for rows in [*_batches(full, spec.batch), *([slice(full, full + 1)] if full < len(starts) else [])]:
        length = min(block, len(tokens) - 1 - int(starts[rows][-1]))
        ids = torch.from_numpy(tokens[starts[rows, None] + np.arange(length + 1)].astype(np.int64)).to(device)
        losses = model.token_losses(ids[:, :-1], ids[:, 1:]).double().cpu().numpy()
        for row, (nats, n) in enumerate(zip(losses, counted[rows], strict=True), rows.start):
            total[row] = nats[length - n :].sum()
    loss = float(total.sum() / counted.sum())
    values = {
        "loss": loss,
        "perplexity": math.exp(loss) if loss < 700 else math.inf,
        # nats per token → bits per byte, with the token and byte counts of this set
        "bits_per_byte": loss * len(tokens) / text.bytes / math.log(2),
        "tokens": int(counted.sum()),
    }
    items = {"start": starts, "tokens": counted, "loss": total / np.maximum(counted, 1)}
    if text.documents is not None:
        items["document"] = _documents(starts, np.minimum(starts + block, len(tokens)) - 1, text.documents)
    return Measured(values, items)


def _masked_text(
    model: LanguageModelLike, text: TextSet, spec: EvalSpec, block: int, device: str, spread: int | None, mask: int
) -> Measured:
    """Measure the loss of hidden tokens. Which are hidden depends on the window alone."""
    tokens = text.tokens
    starts, _ = _windows(len(tokens), spec, block, spread)
    total, hidden = np.zeros(len(starts)), np.zeros(len(starts), np.int64)
    full = int((starts + block <= len(tokens)).sum())  # the last window may be short
    for rows in [*_batches(full, spec.batch), *([slice(full, full + 1)] if full < len(starts) else [])]:
        length = min(block, len(tokens) - int(starts[rows][-1]))
        truth = tokens[starts[rows, None] + np.arange(length)].astype(np.int64)
        chosen = np.concatenate([_hidden(start, length, spec.masked) for start in starts[rows]])
        ids = torch.from_numpy(np.where(chosen, mask, truth)).to(device)
        losses = model.token_losses(ids, torch.from_numpy(truth).to(device)).double().cpu().numpy()
        total[rows], hidden[rows] = np.where(chosen, losses, 0).sum(axis=1), chosen.sum(axis=1)
    loss = float(total.sum() / hidden.sum())
    values = {"loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf, "tokens": int(hidden.sum())}
    items = {"start": starts, "tokens": hidden, "loss": total / hidden}
    if text.documents is not None:
        items["document"] = _documents(starts, np.minimum(starts + block, len(tokens)) - 1, text.documents)
    return Measured(values, items)


def _hidden(start: int, length: int, share: float) -> np.ndarray:
    """Return which tokens (1, T) of the window at `start` are hidden."""
    return choose((1, length), share, np.random.Generator(np.random.Philox(key=stream(0, "hidden", start))))


def _documents(first: np.ndarray, last: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Return the document that contains each window; −1: the window reaches into the next one."""
    of_first, of_last = (np.searchsorted(begins, at, side="right") - 1 for at in (first, last))
    return np.where(of_first == of_last, of_first, -1)


def _windows(count: int, spec: EvalSpec, block: int, spread: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return where windows start, and how many tokens at the end of each window count."""
    stride = spec.stride or block
    starts = np.arange(0, max(1, count - 1), stride)
    if stride < block:  # overlapping windows all have full length
        starts = starts[starts + block < count] if count > block else starts[:1]
    starts = starts[: spec.windows]
    lengths = np.minimum(block, count - 1 - starts)
    if spec.count == "new":
        lengths[1:] = np.minimum(lengths[1:], stride)
    chosen = evenly(len(starts), spread)
    return starts[chosen], lengths[chosen]


def evenly(count: int, wanted: int | None) -> np.ndarray:
    """Return `wanted` of the indices 0 … count − 1, evenly spaced; None: all."""
    return np.linspace(0, count - 1, count if wanted is None else min(wanted, count)).round().astype(np.int64)


def _batches(count: int, size: int) -> list[slice]:
    return [slice(a, min(a + size, count)) for a in range(0, count, size)]


@torch.inference_mode()
def labelled(
    model: nn.Module, items: Encoded, classes: int, spec: EvalSpec, block: int, device: str, spread: int | None = None
) -> Measured:
    """Measure prediction and loss of each labelled text. Batches are sorted by length, which saves padding and changes
    no result. With `spread`, use that many texts, evenly spaced."""
    chosen = evenly(len(items), spread)
    order = chosen[np.argsort(items.lengths[chosen], kind="stable")]
    predicted, loss = np.zeros(len(items), np.int64), np.zeros(len(items))
    for rows in _batches(len(order), spec.batch):
        batch = sentences(items, order[rows], block)
        assert batch.keep is not None
        logits = model(torch.from_numpy(batch.ids).to(device), torch.from_numpy(batch.keep).to(device)).double()
        nats = F.cross_entropy(logits, torch.from_numpy(batch.targets).to(device), reduction="none")
        predicted[order[rows]] = logits.argmax(dim=1).cpu().numpy()
        loss[order[rows]] = nats.cpu().numpy()
    truth, predicted, loss = items.labels[chosen], predicted[chosen], loss[chosen]
    confusion = np.zeros((classes, classes), np.int64)  # rows: truth; columns: predicted
    np.add.at(confusion, (truth, predicted), 1)
    values = {
        "accuracy": float((truth == predicted).mean()),
        "loss": float(loss.mean()),
        "macro_f1": _macro_f1(confusion),
        "texts": len(chosen),
        "confusion": confusion.tolist(),
    }
    return Measured(values, {"item": chosen, "label": truth, "predicted": predicted, "loss": loss})


def _macro_f1(confusion: np.ndarray) -> float:
    """Return the mean of 2·hits / (predicted + true) over the classes that occur in predictions or labels."""
    hits, occurrences = np.diag(confusion), confusion.sum(axis=0) + confusion.sum(axis=1)
    present = occurrences > 0
    return float(np.mean(2 * hits[present] / occurrences[present]))
