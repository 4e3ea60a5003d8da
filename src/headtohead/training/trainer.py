"""The training loop: a loss, its parameters, a schedule. It does not depend on the kind of model or data.

`Trainer.fit` is a generator that yields after every step, so its caller can evaluate, save, draw or stop between steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from headtohead.errors import InputError
from headtohead.parts.averagings import Averaging, NoAverage
from headtohead.parts.objectives import NextToken, Objective
from headtohead.parts.optimizers import AdamW, Groups, Optimizer
from headtohead.parts.samplings import RandomWindows, Sampling
from headtohead.parts.schedules import Schedule, WarmupCosine
from headtohead.spec import Spec, knob
from headtohead.spec.streams import stream
from headtohead.training import optimizer_state
from headtohead.training.optimizer_state import Saved, Stateful


class TrainSpec(Spec):
    """How a model is trained.

    By default the rate rises over 30 % of the steps and falls along a cosine, and gradients are clipped at 1. Without
    that, runs leave an early plateau at different steps, and their final losses differ mostly by this.
    """

    steps: int | None = knob(default=500, ge=1, le=10**12, help="number of updates; none: set by `epochs`")
    epochs: int | None = knob(default=None, ge=1, le=10**9, help="passes over the training data, instead of steps")
    batch: int = knob(default=16, ge=1, le=1 << 24, help="texts or windows per step")
    optimizer: Optimizer = knob(default=AdamW(), help="how a gradient becomes an update")
    schedule: Schedule = knob(default=WarmupCosine(), help="how the learning rate changes over the run")
    clip: float | None = knob(default=1.0, gt=0, help="largest norm of the gradient; none: no clipping")
    sampling: Sampling = knob(default=RandomWindows(), help="which windows form a language model's batch")
    order: int = knob(default=0, ge=0, help="another number reshuffles the batches: for a control against itself")
    objective: Objective = knob(default=NextToken(), later=True, help="what training minimises")
    average: Averaging = knob(default=NoAverage(), later=True, help="which weights are evaluated and kept")
    accumulate: int = knob(
        default=1, ge=1, later=True, help="pieces that a batch is computed in, one after the other, to save memory"
    )

    def check(self) -> None:
        if self.optimizer.averages and self.average.averages:
            name = type(self.optimizer).__name__
            raise InputError(f"train.average: {name} averages the weights itself; set train.average=NoAverage")
        if self.accumulate > self.batch:
            raise InputError(f"train.accumulate={self.accumulate}: choose at most train.batch={self.batch} pieces")
        if (self.steps is None) == (self.epochs is None):
            raise InputError("train.steps and train.epochs: set one of them, and the other to none")

    def set(self, path: str, value: Any) -> TrainSpec:
        """Return a copy with one setting changed. Setting steps unsets epochs, and vice versa."""
        if path in ("steps", "epochs") and value not in (None, "none", "None"):
            other = "epochs" if path == "steps" else "steps"
            number = int(value) if isinstance(value, str) and value.strip().lstrip("-").isdigit() else value
            both: dict[str, Any] = {path: number, other: None}
            return dataclasses.replace(self, **both)
        return super().set(path, value)


@dataclass(frozen=True)
class Step:
    """The result of one update."""

    done: int  # updates so far
    loss: Tensor  # of the batch, before the update; on a GPU, reading its value waits for the computation
    lr: float


@runtime_checkable
class HasAverage(Protocol):
    """An optimizer or an average with weights for evaluation."""

    def averaged(self) -> Mapping[nn.Parameter, Tensor]: ...


def groups_of(model: nn.Module) -> Groups:
    """Sort trainable parameters into matrices, tables and vectors, each parameter once. Embeddings and the layers
    named head are tables: their rows are words or classes, not features, and Muon leaves them to AdamW."""
    linear = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    linear -= {id(p) for name, m in model.named_children() if name == "head" for p in m.parameters() if p.ndim > 1}
    matrices, tables, plain = [], [], []
    for p in model.parameters():
        if not p.requires_grad:
            continue
        if p.ndim < 2:
            plain.append(p)
        elif id(p) not in linear:
            tables.append(p)
        else:
            matrices.append(p)
    return Groups(tuple(matrices), tuple(tables), tuple(plain))


class Trainer:
    """The training of one run: its optimizers, the average of its weights and the number of steps done. `state` and
    `restore` resume it."""

    def __init__(self, model: nn.Module, spec: TrainSpec, steps: int, seed: int) -> None:
        self.model, self.spec, self.steps, self.seed = model, spec, steps, seed
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizers = spec.optimizer.build(groups_of(model))
        self.peaks = [[g["lr"] for g in o.param_groups] for o in self.optimizers]
        self.average = spec.average.build(self.parameters)
        self.done = 0

    def fit(self, loss_of: Callable[[int], Tensor | Iterable[Tensor]]) -> Iterator[Step]:
        """Yield after each update until all steps are done. `loss_of(step)` returns the loss of that step's batch, or
        the terms of which it is the sum: the gradient of each is computed before the next term."""
        self.model.train()
        while self.done < self.steps:
            factor = self.spec.schedule.share(self.done, self.steps)  # of the peak learning rate
            for optimizer, peaks in zip(self.optimizers, self.peaks, strict=True):
                for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                    group["lr"] = peak * factor
            reseed(self.seed, "dropout", self.done)
            loss = _backward(loss_of(self.done))
            if self.spec.clip is not None:
                nn.utils.clip_grad_norm_(self.parameters, self.spec.clip)
            for optimizer in self.optimizers:
                optimizer.step()
            for p in self.parameters:
                p.grad = None
            self.done += 1
            self.average.update(self.done)
            yield Step(self.done, loss, self.peaks[0][0] * factor)
            self.model.train()  # the caller may have switched to evaluation

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside this context the model has the weights that are evaluated and kept; afterwards exactly its own."""
        weights: dict[nn.Parameter, Tensor] = {}
        for source in (*self.optimizers, self.average):
            if isinstance(source, HasAverage):
                weights |= source.averaged()
        own = {p: p.detach().clone() for p in weights}
        _assign(weights)
        try:
            yield
        finally:
            _assign(own)

    @property
    def learning_bytes(self) -> int:
        """Memory that training needs besides the weights: gradients, averages and the optimizers' state."""
        gradients = sum(p.numel() * p.element_size() for p in self.parameters)
        return gradients + optimizer_state.size([*self.optimizers, self.average])

    # -- resuming, with bit-identical results --------------------------------------------------------------------------

    def state(self) -> Saved:
        """Return the state of optimizers and average. Random streams and schedules are functions of the step, so
        nothing else has to be saved."""
        return optimizer_state.save(self._stateful, self.model)

    def restore(self, saved: Saved, done: int) -> None:
        """Continue from a saved state after `done` steps."""
        optimizer_state.restore(self._stateful, self.model, saved)
        self.done = done

    @property
    def _stateful(self) -> dict[str, list[Stateful]]:
        return {"": list(self.optimizers), "average ": [self.average]}


def _backward(loss: Tensor | Iterable[Tensor]) -> Tensor:
    """Compute the gradients of a loss, term by term, and return its value."""
    if isinstance(loss, Tensor):
        loss.backward()
        return loss.detach()
    values = []
    for term in loss:
        term.backward()
        values.append(term.detach())
    return values[0] if len(values) == 1 else torch.stack(values).sum()


@torch.no_grad()
def _assign(weights: Mapping[nn.Parameter, Tensor]) -> None:
    for p, weight in weights.items():
        p.copy_(weight)


def reseed(seed: int, *names: object) -> None:
    """Seed the random stream of dropout from (seed, names), independent of earlier draws."""
    number = stream(seed, *names)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(number)
