"""What operations on heads do to the loss on a held-out set, with news on the way: a sample first, then the whole set.
The numbers are those of `h2h heads`."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numpy as np
from torch import nn

from headtohead.data.encoded import ExampleSet, TextSet
from headtohead.errors import InputError
from headtohead.interpret.surgery import ITEMS, Operation, changed_copy, effect, item_losses
from headtohead.training.tasks import Task
from headtohead.web.answers import Stopped, Tell
from headtohead.web.models import Losses, Models, Side, first_set, weights_key

OFTEN = 0.2  # seconds between two news of an evaluation


def tell_effect(models: Models, side: Side, on: str, tell: Tell, stop: threading.Event) -> None:
    """Tell the loss before and after the operations of a side, on a sample of a set and on all of it. One set is
    evaluated at a time."""
    if not side.operations:
        raise InputError("no head is changed: silence, average or swap one first")
    models.trained(side)  # refuses what cannot be loaded before anything is told
    tell({"share": 0.0})
    while not models.evaluating.acquire(timeout=0.1):
        if stop.is_set():
            return
    try:
        task = models.task(models.trained(side, operations=False))
        name = task.held_out(on) if on else first_set(task)
        size = set_size(task, name)
        for whole in (False, True):
            found = _measured(models, side, task, name, size, whole, tell, stop)
            tell(found)
            if found["items"] >= size:
                return
    finally:
        models.evaluating.release()


def set_size(task: Task, name: str) -> int:
    """The number of windows or texts of a set that an evaluation at the end of training reads."""
    held: Any = task.data.held[name]
    if isinstance(held, ExampleSet):
        return len(held)
    if not isinstance(held, TextSet):
        return len(held.items)
    spec = task.arm.evaluate
    windows = -(-(len(held.tokens) - 1) // (spec.stride or task.arm.model.block))
    return max(1, min(windows, spec.windows or windows))


def _measured(
    models: Models, side: Side, task: Task, name: str, size: int, whole: bool, tell: Tell, stop: threading.Event
) -> dict[str, Any]:
    """The mean loss before and after the operations, and the interval of the change over texts."""
    key = (weights_key(side), name, whole)
    items = size if whole else min(size, ITEMS)
    evaluations = 1 if models.losses.has(key) else 2
    progress = _Progress(evaluations * math.ceil(items / task.arm.evaluate.batch), tell, stop)

    def losses(model: nn.Module) -> Losses:
        model.trunk.register_forward_pre_hook(lambda *_: progress.step())  # type: ignore[union-attr]
        return item_losses(task, model, name, whole)

    plain, weights, clusters = models.losses.get(
        key, lambda: losses(changed_copy(models.trained(side, operations=False), []).model)
    )
    after = losses(models.trained(side).model)[0]
    found = effect(Operation("", None, None), [plain], [after], weights, clusters, None)
    before = float(np.average(plain, weights=weights))
    low, high = (found.items.low, found.items.high) if found.items.has_interval else (None, None)
    return {
        "set": name,
        "items": len(plain),
        "of": len(plain) if whole else size,
        "before": before,
        "after": before + found.difference,
        "difference": found.difference,
        "low": low,
        "high": high,
    }


class _Progress:
    """Tells how far an evaluation is. Ends it when the page no longer listens."""

    def __init__(self, batches: int, tell: Tell, stop: threading.Event) -> None:
        self.batches, self.tell, self.stop = batches, tell, stop
        self.done, self.told = 0, time.monotonic()

    def step(self) -> None:
        if self.stop.is_set():
            raise Stopped
        self.done += 1
        if time.monotonic() - self.told > OFTEN:
            self.told = time.monotonic()
            self.tell({"share": min(1.0, (self.done - 1) / self.batches)})
